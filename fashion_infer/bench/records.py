"""The records of every benchmark: measurements of contenders, in cases, in a result."""

from dataclasses import asdict, dataclass, field
from typing import Any, Dict, List, Optional, Tuple

from ..graph.shapes import ConvolutionShape

OURS, PEER, LIMIT = "ours", "peer", "limit"
OK, WRONG, SKIPPED = "ok", "wrong", "skipped"

# Limits only move the memory of a convolution's output. FILL is the write floor: the time to write the output.
FILL, COPY = "fill", "copy"
_FLOOR_NOISE = 0.05  # share by which a contender at the floor may be measured below it

CONVOLUTIONS, NETWORKS = "conv", "net"  # the benchmarks, by their commands' names

# From where to where a case runs, or which part of the network it runs.
MEMORY, DEVICE, HOST, STAGE, STREAM = "memory", "device", "host", "stage", "stream"
WHERE = {
    MEMORY: "from images in memory to scores in memory",
    DEVICE: "from images on the device to scores on the device",
    HOST: "from images in pinned host memory to predictions on the host",
    STAGE: "convolution, tanh and pool alone, on the device",
    STREAM: "in batches from pinned host memory to predictions on the host",
}
_DIGITS = 7  # of a float in a file: more than a clock or float32 gives
_MANY = 100  # runs from which a 99th percentile means something


def short(value: Any) -> Any:
    """A value for JSON: floats to seven digits, here and in all that it holds."""
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    if isinstance(value, dict):
        return {name: short(each) for name, each in value.items()}
    return [short(each) for each in value] if isinstance(value, (list, tuple)) else value


@dataclass
class Measurement:
    """One contender in one case: ours, a peer or a limit. Of several ways to run it, the fastest."""

    name: str
    kind: str  # "ours", "peer" or "limit"
    step: Optional[int] = None  # of the ladder, from 1, where the kernel is one
    summary: str = ""  # a kernel's idea; what a limit does
    precision: str = ""  # of ours: "float32", "tf32" or "fp16"; of a kernel file its class, as it was seen
    status: str = OK  # "ok", "wrong" or "skipped" (ours does not take this case)
    reason: str = ""  # why it is wrong or skipped
    layout: str = ""  # the way that was fastest
    error: Optional[float] = None  # the largest, against float64, over the range of what is compared
    of_bound: Optional[float] = None  # the largest error over what a plain float32 sum may have there
    changed: Optional[int] = None  # predictions that differ from float64's
    runs: int = 0
    min_ms: Optional[float] = None
    median_ms: Optional[float] = None
    p99_ms: Optional[float] = None  # of 100 runs and more
    samples_ms: Tuple[float, ...] = ()  # at most 50 of the runs, in their order
    images_s: Optional[float] = None
    gb_s: Optional[float] = None  # input, weights and output, each moved once (a limit: what it moves itself)
    tflop_s: Optional[float] = None
    percent_of_limit: Optional[float] = None  # the write floor's time over this one's, where the floor applies
    faster_than: Dict[str, float] = field(default_factory=dict)  # peer: its median over this one's
    file: str = ""  # the path, of a kernel that is a file
    layer_ms: Optional[float] = None  # of a file whose format has phases: prolog, forward and epilog, the median
    findings: Tuple[str, ...] = ()  # what a file was seen to do that it should not

    @property
    def title(self) -> str:
        """The name, with the way that was fastest where there were several."""
        return f"{self.name} {self.layout}".rstrip()

    @property
    def timed(self) -> bool:
        """Whether it was run against the clock."""
        return self.median_ms is not None

    def take(self, summary, batch: int) -> None:
        """Put measured times in: a `timing.Summary` of a batch of so many images."""
        self.layout, self.runs = summary.layout, summary.runs
        self.min_ms, self.median_ms = summary.min_ms, summary.median_ms
        self.p99_ms = summary.p99_ms if summary.runs >= _MANY else None
        self.samples_ms = tuple(round(ms, 6) for ms in summary.samples_ms)  # to a nanosecond, for short files
        self.images_s = 1e3 * batch / summary.median_ms


@dataclass
class BenchCase:
    """One convolution of an edition, or its whole network in one place, at one batch size; and what was measured.

    Rows are limits, ours and peers, in this order.
    """

    edition: str
    where: str  # a key of WHERE
    batch: int
    checked: int  # images compared with float64
    rows: List[Measurement] = field(default_factory=list)
    number: Optional[int] = None  # of the edition's convolutions, from 1; None for the network
    shape: Optional[ConvolutionShape] = None  # of the convolution
    auto: str = ""  # the kernel that `auto` runs on the convolution

    @property
    def name(self) -> str:
        """The case in few words."""
        if self.number is None:
            return f"{self.edition} ({self.where}, {self.batch})"
        return f"{self.edition} convolution {self.number}"

    @property
    def title(self) -> str:
        """The case in words."""
        if self.shape is not None:
            return f"{self.name}: {self.shape.title}"
        return f"{self.edition}, {self.batch:,} image{'s' if self.batch > 1 else ''}, {WHERE[self.where]}"

    @property
    def peers(self) -> List[str]:
        """Names of the peers that were timed."""
        return [row.name for row in self.rows if row.kind == PEER and row.timed]

    @property
    def timed(self) -> List[Measurement]:
        """The rows of ours and of peers that were timed, the fastest first."""
        rows = [row for row in self.rows if row.timed and row.kind != LIMIT]
        return sorted(rows, key=lambda row: row.median_ms)  # type: ignore[arg-type, return-value]

    def row(self, name: str) -> Optional[Measurement]:
        """The row of a contender; None where there is none."""
        return next((row for row in self.rows if row.name == name), None)

    @property
    def fill_ms(self) -> Optional[float]:
        """The time to write the output, by the fastest way found."""
        fill = self.row(FILL)
        return fill.median_ms if fill else None

    @property
    def below_floor(self) -> List[Measurement]:
        """Contenders that took less time than every way to write the output, by more than noise: caches and clocks make
        that possible, and then the write floor does not apply to the case."""
        fill = self.fill_ms
        return [row for row in self.timed if fill and row.median_ms < (1 - _FLOOR_NOISE) * fill]  # type: ignore[operator]

    def rate(self, moved: Dict[str, int]) -> None:
        """Put in what follows from the times: images, bytes and operations a second, and ratios.

        Parameters
        ----------
        moved
            The bytes that the limits move, by their names.
        """
        floor = None if self.below_floor else self.fill_ms
        peers = {row.name: row.median_ms for row in self.timed if row.kind == PEER}
        for row in self.rows:
            if not row.timed:
                continue
            row.images_s = 1e3 * self.batch / row.median_ms
            if row.name in moved:
                row.gb_s = moved[row.name] / row.median_ms / 1e6
            if row.kind == LIMIT:
                continue
            row.faster_than = {name: ms / row.median_ms for name, ms in peers.items() if name != row.name}
            if self.shape is not None:
                row.gb_s = self.shape.bytes / row.median_ms / 1e6
                row.tflop_s = self.shape.operations / row.median_ms / 1e9
                row.percent_of_limit = floor and min(100.0, 100 * floor / row.median_ms)

    def as_dict(self) -> Dict[str, Any]:
        """The case for JSON."""
        return {**short(asdict(self)), "shape": self.shape and self.shape._asdict()}


@dataclass
class LogitsCheck:
    """A network at one precision, before anything is timed: its logits (the softmax's inputs) against float64's."""

    edition: str
    name: str
    precision: str
    checked: int  # images
    status: str = OK
    reason: str = ""
    error: Optional[float] = None  # the largest, over the range of the logits
    changed: Optional[int] = None


@dataclass
class BenchResult:
    """A whole benchmark."""

    benchmark: str  # CONVOLUTIONS or NETWORKS
    backend: str
    device: Dict[str, Any]  # name, and what else identifies it
    versions: Dict[str, str]
    command: str  # that measures it again
    batches: List[int]
    repeat: Optional[int]  # timed runs of each; None where they depend on the batch
    not_compared: Dict[str, str]  # peer: why not
    logits: List[LogitsCheck] = field(default_factory=list)
    cases: List[BenchCase] = field(default_factory=list)

    @property
    def wrong(self) -> List[str]:
        """The incorrect contenders, in words."""
        checks = [f"{check.name} on {check.edition}" for check in self.logits if check.status == WRONG]
        rows = [(row, case) for case in self.cases for row in case.rows if row.status == WRONG]
        return checks + [f"{row.name} on {case.name}" for row, case in rows]

    def as_dict(self) -> Dict[str, Any]:
        """The whole result for JSON; `documents.read` reads it."""
        return {**asdict(self), "cases": [case.as_dict() for case in self.cases]}


def restored(data: Dict[str, Any]) -> BenchResult:
    """A benchmark of convolutions or networks from the dictionary that `BenchResult.as_dict` gave.

    Files from before the two were one kind of record lack some fields, which then have their defaults. KeyError or
    TypeError for anything else.
    """
    cases = []
    for each in data["cases"]:
        rows = [Measurement(**{**row, "samples_ms": tuple(row.get("samples_ms", ()))}) for row in each["rows"]]
        shape = ConvolutionShape(**each["shape"]) if each.get("shape") else None
        case = BenchCase(**{**each, "rows": rows, "shape": shape})
        case.rate({})  # also files from before no percentage was above 100
        cases.append(case)
    known = {"benchmark": NETWORKS, "repeat": None, **data}
    return BenchResult(**{**known, "logits": [LogitsCheck(**check) for check in data["logits"]], "cases": cases})
