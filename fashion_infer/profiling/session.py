"""One profiled run: which sources record when, and what becomes of their records."""

import time
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from .. import devices, pipeline
from ..data.dataset import Images
from ..errors import DeviceError, UsageError
from ..library import operators
from ..measure import ceilings, process
from . import overhead, records, stages, tables, throughput
from .cupti_source import CuptiSource
from .mxnet_source import MXNetSource, named
from .records import Record


class Profile(NamedTuple):
    """What a profiled run found."""

    result: pipeline.Result
    activities: tables.Table  # of the GPU, or of the CPU
    calls: tables.Table  # into CUDA, or into MXNet
    records: List[Record]  # all of them, for a timeline
    usage: process.Usage  # of the program up to the end of the profiled passes
    throughput: List[throughput.Throughput]
    ceilings: Optional[Dict[str, float]]
    no_ceilings: Optional[str]  # why there are none
    overhead: List[overhead.Overhead]

    def as_dict(self) -> Dict[str, Any]:
        """For JSON; times in the tables in nanoseconds, all others in seconds."""
        return {
            "run": self.result.as_dict(),
            "tables": [tables.as_dict(table) for table in (self.activities, self.calls)],
            "usage": self.usage._asdict(),
            "throughput": [throughput.as_dict(t) for t in self.throughput],
            "ceilings": self.ceilings,
            "no_ceilings": self.no_ceilings,
            "overhead": [overhead.as_dict(o) for o in self.overhead],
        }


def profile(
    net: pipeline.Network,
    images: Images,
    backend: str = "auto",
    device: int = 0,
    repeat: int = 1,
    turns: int = 3,
    with_ceilings: bool = True,
    **options: Any,
) -> Profile:
    """Run a network under the profiler, then some passes more for what the profiler costs.

    Parameters
    ----------
    net, images, backend, device, **options
        As `pipeline.run` takes them.
    repeat
        Passes that the tables and the timeline show, the program's first: what CUDA and MXNet set up is part of them.
    turns
        Further passes that count, without the profiler and with it in turn: so many of each. 0 for none.
    with_ceilings
        Whether to measure what the device can do at most.

    Raises
    ------
    UsageError, CheckpointError, DeviceError
        What a run raises, and on a GPU DeviceError without CUPTI.
    """
    if repeat < 1 or turns < 0:
        raise UsageError("repeat must be at least 1, and the passes for the overhead at least 0")
    cupti = _cupti(backend, device, options.get("mode") or "fused")
    schedule = overhead.Schedule(repeat, turns, settling=0 if cupti is None else 1)
    watch = _Watch(cupti, MXNetSource(), schedule)
    try:
        watch.record()
        result = pipeline.run(
            net, images, backend, device=device, repeat=schedule.total, between=watch.between, **options
        )
    finally:
        watch.close()
    shown = result._replace(layers=[_first(layer, repeat) for layer in result.layers])
    nodes = named(records.of(watch.mxnet, records.NODE), [(layer.name, layer.operator) for layer in result.layers])
    mxnet_calls = records.of(watch.mxnet, records.API)
    fused = stages.lay(_log(shown.layers, repeat), [node for node in nodes if node.name == stages.NET])
    if result.backend == "gpu":
        activities = tables.tabulate("GPU activities", records.of(watch.cuda, *records.DEVICE_KINDS))
        calls = records.of(watch.cuda, records.API)
    else:
        # The subgraph operator's time is that of its stages.
        rest = [node for node in nodes if not (fused and node.name == stages.NET)]
        activities, calls = tables.tabulate("CPU activities", [*fused, *rest]), records.outermost(mxnet_calls)
    limits, reason = _ceilings(result, device) if with_ceilings else (None, "not asked for")
    return Profile(
        result=shown,
        activities=activities,
        calls=tables.tabulate("API calls", calls),
        records=[*watch.cuda, *mxnet_calls, *nodes, *fused],
        usage=watch.usage,
        throughput=throughput.of([_unprofiled(layer, schedule) for layer in result.layers]),
        ceilings=limits,
        no_ceilings=reason,
        overhead=overhead.measured(result.layers, watch.walls, schedule),
    )


def _cupti(backend: str, device: int, mode: str) -> Optional[CuptiSource]:
    """CUPTI, recording, when the run is going to use a GPU. It must be there before CUDA is first called."""
    if backend == "cpu" or not operators.kernels("gpu"):
        return None
    try:
        source = CuptiSource()
        source.start()
    except DeviceError as error:
        if devices.choose(backend, device, mode).backend == "gpu":
            raise error from None
        return None
    if devices.choose(backend, device, mode).backend == "gpu":
        return source
    source.stop()
    return None


def _ceilings(result: pipeline.Result, device: int):
    try:
        return ceilings.measured_apart(result.backend, device, result.threads), None
    except DeviceError as error:
        return None, str(error)


def _first(layer: pipeline.Layer, passes: int) -> pipeline.Layer:
    """The layer's first passes alone."""
    return layer._replace(
        **{field: getattr(layer, field)[:passes] for field in ("seconds", "upload", "download", "log")}
    )


def _unprofiled(layer: pipeline.Layer, schedule: overhead.Schedule) -> pipeline.Layer:
    """The layer in the passes without the profiler, where there were any: they are warm as well, and the first pass of
    a fused network on a GPU took 60 times a later one's 0.19 ms, loading code."""
    return layer._replace(seconds=schedule.counted(layer.seconds)[0] or layer.seconds)


def _log(layers: Sequence[pipeline.Layer], passes: int) -> List[operators.OpTime]:
    """What the library logged, as it logged it: pass by pass, slice by slice, stage by stage."""
    made = []
    for index in range(passes):
        slices = zip(*(layer.log[index] for layer in layers if layer.log and layer.log[index]))
        made += [op for part in slices for op in part]
    return made


class _Watch:
    """Turns the sources on and off between passes, and times the passes."""

    def __init__(self, cupti: Optional[CuptiSource], mxnet: MXNetSource, schedule: overhead.Schedule):
        self._sources = [source for source in (cupti, mxnet) if source is not None]
        self._cupti, self._mxnet, self._schedule = cupti, mxnet, schedule
        self._began: Optional[float] = None
        self.walls: List[float] = []
        self.cuda: List[Record] = []
        self.mxnet: List[Record] = []
        self.usage: process.Usage

    def record(self) -> None:
        for source in self._sources:
            source.start()

    def between(self, index: int) -> None:
        """Before each pass, and after the last: switches as the schedule says, and keeps the records of those shown."""
        if self._began is not None:
            self.walls.append(time.perf_counter() - self._began)
        shown = index == self._schedule.shown
        if shown:
            self.usage = process.usage()
        if index > 0 and self._schedule.recorded(index) != self._schedule.recorded(index - 1):
            if self._schedule.recorded(index):
                self.record()
            else:
                self._stop()
        if shown:
            self.mxnet = self._mxnet.take()
            self.cuda = self._cupti.take() if self._cupti is not None else []
        self._began = time.perf_counter()

    def _stop(self) -> None:
        for source in self._sources:
            source.stop()

    def close(self) -> None:
        self._stop()
        self._mxnet.close()
