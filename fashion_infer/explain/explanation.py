"""Explanation of a kernel file: whether it is correct, its speed compared with other kernels, and the findings."""

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..bench.conclusions import Conclusion, conclusions
from ..bench.conv import Convolutions
from ..bench.records import OURS, BenchCase
from ..bench.request import BenchRequest
from ..checkpoints import editions
from ..errors import DeviceError, UsageError
from ..judging import trials
from ..judging.calls import Tried
from ..judging.trials import Checked
from ..kernel_files.formats import KernelFile
from . import cpu, gpu
from .findings import KernelFinding

SECONDS = 60  # time limit of the sanitizers together, and of the profilers of one layer together
_MOST = 5  # largest number of findings
_NO_LINES = "findings by line are for C, C++ and CUDA files"
_BATCH, _REPEAT = {"cpu": 100, "gpu": 1000}, 5


class Explanation(NamedTuple):
    """Verdict on a kernel file, its speed, and the findings that explain them.

    `standing` and `between` are set only for a correct file that was timed. `standing` compares the file with peers,
    the write floor and our fastest kernel. `between` names two of our kernels: the next slower and the next faster one.
    """

    checked: Checked
    layer: str  # the examined layer; "" for an incorrect file
    findings: Tuple[KernelFinding, ...]
    missing: Tuple[str, ...] = ()  # tools that are not installed, and how to get them
    standing: Optional[Conclusion] = None
    milliseconds: Optional[float] = None
    between: Tuple[Optional[str], Optional[str]] = (None, None)
    listing: str = ""
    figures: Mapping[str, Any] = {}  # on a CPU: the call's figures and this machine's limits

    @property
    def right(self) -> bool:
        """Whether the file is correct."""
        return self.checked.right

    def as_dict(self) -> Dict[str, Any]:
        """Return the explanation as a dictionary for JSON."""
        return {
            "verdict": self.checked.sentence,
            "right": self.right,
            "layer": self.layer,
            "milliseconds": self.milliseconds,
            "between": list(self.between),
            "standing": self.standing._asdict() if self.standing else None,
            "findings": [one.as_dict() for one in self.findings],
            "missing": list(self.missing),
            "listing": self.listing,
            "figures": dict(self.figures),
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
    """Judge a kernel file, and find the lines that make it wrong or slow.

    Parameters
    ----------
    file
        The kernel file, whose format has been recognised.
    edition, layer
        The edition and the number of the layer to examine. By default, the last layer of the first edition for which
        the file is correct.
    device
        Index of the GPU.
    sanitize
        Whether to run the sanitizers even if the file is correct.
    asm
        Whether to list the hot loop's instructions.
    profiler
        Whether ncu may be used.

    Raises
    ------
    UsageError
        For an unknown edition or layer.
    DeviceError
        When the file does not build, or is for a GPU and there is none.
    """
    if edition:
        _check_layer(edition, layer)
    checked = trials.check(file, device=device, edition=edition)
    file = checked.file
    side: Any = cpu if file.backend == "cpu" else gpu
    found: List[KernelFinding] = []
    missing: List[str] = []
    if not checked.right or sanitize or file.backend == "cpu":
        found, missing = why_wrong(checked)
    # The kernel is timed in this process. A file with an error in memory that its results do not show might end it.
    if not checked.right or sanitize or any(one.code in cpu.MEMORY for one in found):
        return Explanation(checked, "", tuple(found), tuple(missing), listing=_listing(side, file, asm, missing))
    chosen = checked.right_for[0]
    _check_layer(chosen, layer)
    layers = checked.by_edition[chosen]
    number = layer or len(layers)
    tried = layers[number - 1]
    slow = why_slow(file, tried, profiler)
    missing = list(slow.missing)
    standing, milliseconds, between = _standing(file, chosen, number, device)
    return Explanation(
        checked,
        tried.what,
        slow.findings,
        tuple(missing),
        standing,
        milliseconds,
        between,
        _listing(side, file, asm, missing, slow.hot),
        slow.figures,
    )


class SlowReport(NamedTuple):
    """Findings on a correct file's speed on one layer."""

    findings: Tuple[KernelFinding, ...] = ()
    missing: Tuple[str, ...] = ()  # tools that are not installed, or could not run
    figures: Mapping[str, Any] = {}  # on a CPU: the call's figures and this machine's limits
    hot: Sequence[int] = ()  # on a CPU: numbers of the source lines of the loop with the most samples


def _check_layer(edition: str, layer: Optional[int]) -> None:
    """Raise UsageError unless the edition has a layer of that number."""
    count = len(list(editions.convolution_shapes(editions.get(edition))))
    if layer is not None and not 1 <= layer <= count:
        raise UsageError(f"--layer {layer}: {edition} has {count} layer{'' if count == 1 else 's'}")


def why_slow(file: KernelFile, tried: Tried, profiler: bool = True, seconds: float = SECONDS) -> SlowReport:
    """Return findings on a correct file's speed on one layer, within a limit of `seconds`."""
    if file.format.adapter is None:
        return SlowReport(missing=(_NO_LINES,))
    missing: List[str] = []
    try:
        if file.backend == "cpu":
            speed = cpu.slow(file, [tried], seconds)
            return SlowReport(tuple(speed.findings[:_MOST]), (), speed.figures(tried.shape), speed.run.loop_lines)
        found = gpu.slow(file, [tried], seconds, profiler=profiler, say=missing.append)
        return SlowReport(tuple(found[:_MOST]), tuple(missing))
    except DeviceError as error:
        return SlowReport(missing=(*missing, str(error)))


def why_wrong(checked: Checked, seconds: float = SECONDS) -> Tuple[List[KernelFinding], List[str]]:
    """Return findings on why a file is wrong, and the tools that are missing, within a limit of `seconds`."""
    file, cases = checked.file, _cases(checked)
    if file.format.adapter is None:
        return [], [_NO_LINES]
    if not cases:  # all trials exceeded the time limit, as they would under a sanitizer
        return [], []
    try:
        found = (cpu if file.backend == "cpu" else gpu).wrong(file, cases, seconds)
    except DeviceError as error:
        return [], [str(error)]
    return found[:_MOST], []


def _cases(checked: Checked) -> List[Tried]:
    """Return the trials for the sanitizers, smallest layer first: the incorrect ones, or all for a correct file."""
    wrong = checked.wrong or [one for one in checked.tried if not one.right]
    cases = [one for one in wrong or checked.tried if one.code != "time_limit"]
    return sorted(cases, key=lambda one: one.shape[1] * one.shape[2] * one.shape[3])


def _listing(side: Any, file: KernelFile, asm: bool, missing: List[str], hot: Sequence[int] = ()) -> str:
    if not asm or file.format.adapter is None:
        return ""
    try:
        return str(side.listing(file, hot) if hot else side.listing(file))
    except DeviceError as error:
        missing.append(str(error))
        return ""


class _OneConvolution(Convolutions):
    """Benchmark of one convolution of an edition, given by its number, counted from 1."""

    def __init__(self, request: BenchRequest, number: int):
        super().__init__(request)
        self._number = number

    def cases(self) -> List[BenchCase]:
        """Return the case of that convolution, the only one."""
        return [case for case in super().cases() if case.number == self._number]


def _standing(
    file: KernelFile, edition: str, number: int, device: int
) -> Tuple[Optional[Conclusion], Optional[float], Tuple[Optional[str], Optional[str]]]:
    """Time the file, our kernels and the installed peers on one layer; return a conclusion and the file's neighbours.

    The result is the conclusion, the file's median time in milliseconds, and the names of our next slower and next
    faster kernel. All are None if the file was not timed.
    """
    against = None if file.backend == "gpu" else "torch,mxnet"
    asked = BenchRequest(
        (edition,),
        file.backend,
        device,
        against,
        (_BATCH[file.backend],),
        _REPEAT,
        kernels=f"{file.path},ladder",
        files=(file,),
        formats=file.format.name,
    )
    result = _OneConvolution(asked, number).measure()
    (case,) = result.cases
    row = next((row for row in case.rows if row.file), None)
    if row is None or row.median_ms is None:
        return None, None, (None, None)
    ours = sorted(
        (each.median_ms, each.name) for each in case.rows if each.kind == OURS and not each.file and each.median_ms
    )
    slower = next((name for time, name in ours if time >= row.median_ms), None)
    faster = next((name for time, name in reversed(ours) if time < row.median_ms), None)
    return next(iter(conclusions(result)), None), row.median_ms, (slower, faster)
