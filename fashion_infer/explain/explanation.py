"""Explanation of a kernel file: the judge's verdict, the speed compared with other kernels, and the findings."""

import importlib.util
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..bench.conclusions import Conclusion, conclusions
from ..bench.conv import Convolutions
from ..bench.protocol import Trial
from ..bench.records import OURS, BenchCase
from ..bench.request import BenchRequest
from ..bench.timing import WallClock
from ..bench.user_kernels import row_of
from ..checkpoints import editions
from ..errors import DeviceError, UsageError
from ..graph.layers import ConvolutionShape
from ..judging import judge
from ..judging.verdict import ShapeVerdict, Verdict
from ..kernel_files.formats import KernelFile
from ..kernel_files.loading import LoadedKernel
from . import listing, ncu, slow_cpu, slow_gpu, wrong
from .findings import KernelFinding
from .samples import SampledProgram

SECONDS = 60  # time limit of the sanitizers together, and of the profilers of one layer together
_SLOW = 20  # time limit of a call that shows whether a file that reached its time limit is slow, in seconds
_MOST = 5  # largest number of findings
_NO_LINES = "findings by line are for C, C++ and CUDA files"
_BATCH, _REPEAT = {"cpu": 100, "gpu": 1000}, 5
_PAUSE = 0.02  # seconds between contenders on the CPU; OpenMP's idle threads spin for some 0.015 s
_WORK = 1e8  # multiply-adds of a timed call on the CPU, at most: our naive kernel makes some 1e9 per second


class Explanation(NamedTuple):
    """Verdict on a kernel file, its speed, and the findings that explain them.

    `standing` and `between` are set only for a correct file that was timed. `standing` compares the file with peers,
    the write floor and our fastest kernel. `between` names two of our kernels: the next slower and the next faster one.
    """

    verdict: Verdict
    layer: str  # the examined layer; "" for an incorrect file
    findings: Tuple[KernelFinding, ...]
    missing: Tuple[str, ...] = ()  # tools that are not installed, or why no line was found
    standing: Optional[Conclusion] = None
    milliseconds: Optional[float] = None
    between: Tuple[Optional[str], Optional[str]] = (None, None)
    listing: str = ""
    figures: Mapping[str, Any] = {}  # on a CPU: the call's figures and this machine's limits
    notes: Tuple[str, ...] = ()  # what is no finding, such as the time outside of Op Time
    hot: Sequence[int] = ()  # on a CPU: numbers of the source lines of the loop with the most samples

    @property
    def right(self) -> bool:
        """Whether the file is correct."""
        return self.verdict.right

    def as_dict(self) -> Dict[str, Any]:
        """Return the explanation as a dictionary for JSON."""
        return {
            "verdict": self.verdict.sentence,
            "correct": self.right,
            **{name: value for name, value in self._asdict().items() if name not in ("verdict", "hot")},
            "standing": self.standing and self.standing._asdict(),
            "findings": [one.as_dict() for one in self.findings],
        }


def explain(
    file: KernelFile,
    edition: Optional[str] = None,
    layer: Optional[int] = None,
    device: int = 0,
    sanitize: bool = False,
    asm: bool = False,
    profiler: bool = True,
) -> Explanation:
    """Judge a kernel file, and find the lines that make it wrong or slow; see `api.explain_kernel`."""
    if edition:
        _check_layer(edition, layer)
    with ThreadPoolExecutor(1) as pool:  # the file is built again while it is judged
        program = pool.submit(SampledProgram, file) if file.backend == "cpu" and file.format.adapter else None
        verdict = judge.check(file, edition, device=device)
    file, missing = verdict.file, []  # type: ignore[var-annotated]
    if not verdict.right:
        found, missing = why_wrong(verdict)
        if program and not program.exception():
            with program.result() as sampled:
                ended = [one for one in verdict.wrong if one.code in ("hangs", "time_limit")]
                if ended and not found:  # it may be too slow
                    run = sampled.run(ended[0].shape, _SLOW, 8)
                    found = slow_cpu.of_run(file.path, sampled.vectors, run)[:_MOST]
                    missing = [] if found else missing
        return Explanation(verdict, "", tuple(found), tuple(missing), listing=_listing(file, asm, missing))
    if sanitize and file.backend == "gpu":
        missing += _sanitized(verdict)
    chosen = verdict.right_for[0]
    _check_layer(chosen, layer)
    layers = verdict.by_edition[chosen]
    number = layer or len(layers)
    tried = layers[number - 1]
    timed = _timed(file, chosen, number, device)
    slow = why_slow(verdict, tried, profiler, SECONDS, timed, program.result() if program else None)
    shown = _listing(file, asm, missing, slow.hot)
    notes = dict.fromkeys(text for one in layers for text in one.findings)
    return slow._replace(missing=(*missing, *slow.missing), listing=shown, notes=(*notes, *slow.notes))


class TimedLayer(NamedTuple):
    """The times of a file and of our kernels on one layer; None and empty if the file was not timed."""

    milliseconds: Optional[float] = None
    ours: Mapping[str, float] = {}  # median milliseconds by kernel
    standing: Optional[Conclusion] = None

    @property
    def between(self) -> Tuple[Optional[str], Optional[str]]:
        """The names of our next slower and next faster kernel."""
        if self.milliseconds is None:
            return None, None
        sides = {name: time - self.milliseconds for name, time in self.ours.items()}
        slower = min((name for name, by in sides.items() if by >= 0), key=lambda name: sides[name], default=None)
        return slower, max((name for name, by in sides.items() if by < 0), key=lambda name: sides[name], default=None)


def _check_layer(edition: str, layer: Optional[int]) -> None:
    """Raise UsageError unless the edition has a layer of that number."""
    count = len(list(editions.convolution_shapes(editions.get(edition))))
    if layer is not None and not 1 <= layer <= count:
        raise UsageError(f"--layer {layer}: {edition} has {count} layer{'' if count == 1 else 's'}")


def why_slow(
    verdict: Verdict,
    tried: ShapeVerdict,
    profiler: bool = True,
    seconds: float = SECONDS,
    timed: Optional[TimedLayer] = None,
    program: Optional[SampledProgram] = None,
) -> Explanation:
    """Return findings on a correct file's speed on one layer; `program` is closed afterwards."""
    file, timed = verdict.file, timed or TimedLayer()
    made = Explanation(verdict, tried.what, (), (), timed.standing, timed.milliseconds, timed.between)
    if file.format.adapter is None:
        return made._replace(missing=(_NO_LINES,))
    missing: List[str] = []
    try:
        if file.backend == "cpu":
            with program or SampledProgram(file) as sampled:
                run, said = sampled.run(tried.shape, seconds), sampled.vectors
            found = slow_cpu.of_run(file.path, said, run, timed.milliseconds, timed.ours)
            made = made._replace(missing=() if run.seconds else ("No call ended in time to be explained.",))
            return made._replace(findings=tuple(found[:_MOST]), figures=run.figures, hot=run.loop_lines)
        shape = tried.shape._replace(B=_BATCH["gpu"])
        raw = ncu.measure(file, shape, seconds, profiler, say=missing.append)
        found, notes = slow_gpu.findings(raw, file.path, file.format, timed.milliseconds, timed.ours)
        return made._replace(findings=tuple(found[:_MOST]), missing=tuple(missing), notes=tuple(notes))
    except DeviceError as error:
        return made._replace(missing=(*missing, str(error)))


def why_wrong(verdict: Verdict, seconds: float = SECONDS) -> Tuple[List[KernelFinding], List[str]]:
    """Return findings on why a file is wrong, and what is missing, within a limit of `seconds`."""
    if verdict.file.format.adapter is None:
        return [], [_NO_LINES]
    found, missing = wrong.findings(verdict, seconds)
    return found[:_MOST], missing


def _sanitized(verdict: Verdict) -> List[str]:  # pragma: no cover (needs a GPU)
    """Run compute-sanitizer on a correct file; return the errors that it reports as lines of text."""
    try:
        found = wrong.under_sanitizer(verdict.file, verdict.layers, SECONDS)
    except DeviceError as error:
        return [str(error)]
    return [f"{one.what} [{one.code}]" for one in found] or ["compute-sanitizer finds nothing."]


def _listing(file: KernelFile, asm: bool, missing: List[str], hot: Sequence[int] = ()) -> str:
    if not asm or file.format.adapter is None:
        return ""
    try:
        return listing.of(file, hot)
    except DeviceError as error:
        missing.append(str(error))
        return ""


class _OneConvolution(Convolutions):
    """Benchmark of one convolution of an edition, given by its number, for a file that was already judged."""

    def __init__(self, request: BenchRequest, number: int):
        super().__init__(request)
        self._number = number

    def cases(self) -> List[BenchCase]:
        return [case for case in super().cases() if case.number == self._number]

    def prepare(self, case: BenchCase, index: int) -> Trial:
        (kernel,) = (one for one in self._kernels if isinstance(one, LoadedKernel))
        self._kernels = [one for one in self._kernels if one is not kernel]
        trial = super().prepare(case, index)
        if self.request.backend == "cpu":
            trial.work.clock = WallClock(trial.work.clock.slow, _PAUSE)
        file = trial.work.kernel_file(kernel)
        file.run()  # it must have run once before it is timed
        case.rows.append(row_of(kernel))
        trial.timed.append(file)
        return trial


def _peer() -> str:
    """Return the peer on the CPU: the fastest one that is installed. To import both takes seconds."""
    return "torch" if importlib.util.find_spec("torch") else "mxnet"


def _timed(file: KernelFile, edition: str, number: int, device: int) -> TimedLayer:
    """Time the file, our kernels and the installed peers on one layer."""
    C, size, M, K = list(editions.convolution_shapes(editions.get(edition)))[number - 1]
    one = ConvolutionShape(1, C, size, size, M, K)
    batch = _BATCH[file.backend]
    if file.backend == "cpu":
        batch = max(8, min(batch, int(2 * _WORK / one.operations)))
    peer = None if file.backend == "gpu" else _peer()
    asked = BenchRequest((edition,), file.backend, device, peer, (batch,), _REPEAT, files=(file,))
    asked = asked._replace(kernels=f"{file.path},ladder", formats=file.format.name)
    result = _OneConvolution(asked, number).measure()
    (case,) = result.cases
    row = next((row for row in case.rows if row.file), None)
    if row is None or row.median_ms is None:
        return TimedLayer()
    ours = {one.name: one.median_ms for one in case.rows if one.kind == OURS and not one.file and one.median_ms}
    return TimedLayer(row.median_ms, ours, next(iter(conclusions(result)), None))
