"""Runs a network under the profiler, for the command `profile`, and makes tables of the records."""

from contextlib import nullcontext
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from . import pipeline
from .bench import ceilings
from .errors import DataError, DeviceError, UsageError
from .inference.layer_times import LayerResult
from .inference.model import LoadedModel
from .library import kernels
from .library.op_times import OpTime
from .profiling import mxnet, records, tables
from .profiling.cupti import CuptiSource
from .profiling.figures import Figures, throughputs
from .profiling.mxnet import MXNetSource
from .profiling.records import Record
from .request import Request
from .result import Result
from .system import process
from .system.files import replacing


class ProfiledRun(NamedTuple):
    result: Result
    figures: Figures
    records: List[Record]  # all records, for a timeline

    def as_dict(self) -> Dict[str, Any]:
        return {"run": self.result.as_dict(), **self.figures.as_dict()}


def profile(
    request: Request, turns: int = 3, with_ceilings: bool = True, announce: pipeline.Announce = nullcontext
) -> ProfiledRun:
    """Run a network under the profiler, first passes included, then `turns` passes without it."""
    pipeline.check(request)
    if turns < 0:
        raise UsageError("the number of passes without the profiler must be at least 0")
    images, model = pipeline.load(request, announce)
    cupti = _cupti(request, model)
    # The first pass after CUPTI is switched off does not count: CUPTI may still lengthen the time between events.
    settling = 1 if cupti is not None and turns else 0
    watch = _Watch(cupti, MXNetSource(), request.repeat)
    try:
        watch.start()
        asked = request.but(repeat=request.repeat + settling + turns)
        result = pipeline.run(asked, images, model, between=watch.between)
    finally:
        watch.close()
    shown = result._replace(layers=[_first(layer, request.repeat) for layer in result.layers])
    layers = [(layer.name, layer.operator) for layer in result.layers]
    nodes = mxnet.with_layer_names(records.of(watch.mxnet, records.NODE), layers)
    mxnet_calls = records.of(watch.mxnet, records.API)
    passes = [node for node in nodes if node.name == mxnet.NETWORK]
    fused = mxnet.stage_records(_log(shown.layers, request.repeat), passes)
    if result.backend == "gpu":
        activities = tables.tabulate("GPU activities", records.of(watch.cuda, *records.DEVICE_KINDS))
        calls = records.of(watch.cuda, records.API)
    else:
        # The table shows the stages instead of the subgraph operator that ran them.
        rest = [node for node in nodes if not (fused and node.name == mxnet.NETWORK)]
        activities, calls = tables.tabulate("CPU activities", [*fused, *rest]), records.outermost(mxnet_calls)
    limits, reason = _ceilings(result, request.device) if with_ceilings else (None, "not asked for")
    figures = Figures(
        tables=[activities, tables.tabulate("API calls", calls)],
        usage=watch.usage,
        throughput=throughputs([_last(layer, turns) for layer in result.layers]),
        ceilings=limits,
        no_ceilings=reason,
        passes=turns,
    )
    return ProfiledRun(shown, figures, [*watch.cuda, *mxnet_calls, *nodes, *fused])


def save(profile: ProfiledRun, as_csv: Optional[str], timeline: Optional[str]) -> None:
    """Write each file whose path is not empty or None, atomically; raise DataError if one cannot be written."""
    if as_csv:
        with replacing(as_csv, DataError) as temporary:
            tables.write_csv(temporary, profile.figures.tables)
    if timeline:
        with replacing(timeline, DataError) as temporary:
            tables.write_timeline(temporary, profile.records)


def _cupti(request: Request, model: LoadedModel) -> Optional[CuptiSource]:
    """Start CUPTI if the run will use a GPU, before CUDA is first called; else return None."""
    if request.backend == "cpu" or not kernels.table("gpu"):
        return None
    try:
        source = CuptiSource()
        source.start()
    except DeviceError as error:
        if pipeline.choose(request, model).backend == "gpu":
            raise error from None
        return None
    if pipeline.choose(request, model).backend == "gpu":
        return source
    source.stop()
    return None


def _ceilings(result: Result, device):
    try:
        return ceilings.measure_in_child(result.backend, device, result.threads), None
    except DeviceError as error:
        return None, str(error)


def _first(layer: LayerResult, passes: int) -> LayerResult:
    return layer._replace(
        **{field: getattr(layer, field)[:passes] for field in ("seconds", "upload", "download", "log")}
    )


def _last(layer: LayerResult, passes: int) -> LayerResult:
    """Return a layer with the times of its last passes, or of all if `passes` is 0."""
    return layer._replace(seconds=layer.seconds[-passes:])


def _log(layers: Sequence[LayerResult], passes: int) -> List[Tuple[str, OpTime]]:
    """Return the library's log of the first `passes` passes, with layers' names, by pass, slice and layer."""
    made = []
    for index in range(passes):
        logged = [layer for layer in layers if layer.log and layer.log[index]]
        slices = zip(*([(layer.name, op) for op in layer.log[index]] for layer in logged))
        made += [op for part in slices for op in part]
    return made


class _Watch:
    """Records the first passes of a run, the `shown` ones."""

    def __init__(self, cupti: Optional[CuptiSource], mxnet: MXNetSource, shown: int):
        self._sources = [source for source in (cupti, mxnet) if source is not None]
        self._cupti, self._mxnet, self._shown = cupti, mxnet, shown
        self.cuda: List[Record] = []
        self.mxnet: List[Record] = []
        self.usage: process.Usage

    def start(self) -> None:
        for source in self._sources:
            source.start()

    def between(self, index: int) -> None:
        """After the shown passes, switch the sources off and take their records."""
        if index != self._shown:
            return
        self.usage = process.usage()
        self._stop()
        self.mxnet = self._mxnet.take()
        self.cuda = self._cupti.take() if self._cupti is not None else []

    def _stop(self) -> None:
        for source in self._sources:
            source.stop()

    def close(self) -> None:
        self._stop()
        self._mxnet.close()
