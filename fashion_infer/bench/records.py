"""Records of every benchmark: a result has cases, which have measurements of contenders."""

from dataclasses import asdict, dataclass, field
from typing import Any, Dict, List, Optional, Tuple

from ..graph.shapes import ConvolutionShape

OURS, PEER, LIMIT = "ours", "peer", "limit"
OK, WRONG, SKIPPED = "ok", "wrong", "skipped"

# Limits only move the memory of a convolution's output. FILL is the write floor: the time to write the output.
FILL, COPY = "fill", "copy"
_FLOOR_NOISE = 0.05  # fraction by which a contender at the floor may be measured below it

CONVOLUTIONS, NETWORKS = "conv", "net"  # the benchmarks, by their commands' names

# Where a case's inputs and outputs are, or which part of the network it runs.
MEMORY, DEVICE, HOST, STAGE, STREAM = "memory", "device", "host", "stage", "stream"
WHERE = {
    MEMORY: "from images in memory to scores in memory",
    DEVICE: "from images on the device to scores on the device",
    HOST: "from images in pinned host memory to predictions on the host",
    STAGE: "convolution, tanh and pool alone, on the device",
    STREAM: "in batches from pinned host memory to predictions on the host",
}
_DIGITS = 7  # of a float in a file: more than a clock or float32 has
_MANY = 100  # least number of runs for a meaningful 99th percentile


def short(value: Any) -> Any:
    """Round all floats in a value to seven digits, for JSON."""
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    if isinstance(value, dict):
        return {name: short(each) for name, each in value.items()}
    return [short(each) for each in value] if isinstance(value, (list, tuple)) else value


@dataclass
class Measurement:
    """One contender in one case: ours, a peer or a limit. If it has several variants, the fastest."""

    name: str
    kind: str  # "ours", "peer" or "limit"
    step: Optional[int] = None  # in the ladder, from 1, if the kernel is in it
    summary: str = ""  # a kernel's idea, or what a limit does
    precision: str = ""  # ours: "float32", "tf32" or "fp16"; a kernel file: its observed class
    status: str = OK  # "ok", "wrong" or "skipped" (ours does not take this case)
    reason: str = ""  # why it is wrong or skipped
    layout: str = ""  # the fastest variant
    error: Optional[float] = None  # the largest, against float64, relative to the range of the output
    of_bound: Optional[float] = None  # the largest error, relative to the bound of a plain float32 sum
    changed: Optional[int] = None  # predictions that differ from float64's
    runs: int = 0
    min_ms: Optional[float] = None
    median_ms: Optional[float] = None
    p99_ms: Optional[float] = None  # for at least 100 runs
    samples_ms: Tuple[float, ...] = ()  # at most 50 of the runs, in order
    images_s: Optional[float] = None
    gb_s: Optional[float] = None  # input, weights and output, each moved once (for a limit: the bytes that it moves)
    tflop_s: Optional[float] = None
    percent_of_limit: Optional[float] = None  # the write floor's time over this one's, if the floor applies
    faster_than: Dict[str, float] = field(default_factory=dict)  # peer: its median over this one's
    file: str = ""  # the path, for a kernel file
    layer_ms: Optional[float] = None  # median of prolog, forward and epilog together, for a format with phases
    findings: Tuple[str, ...] = ()  # observed misbehaviour of a file

    @property
    def title(self) -> str:
        """The name, with the fastest variant if there are several."""
        return f"{self.name} {self.layout}".rstrip()

    @property
    def timed(self) -> bool:
        """Whether it was timed."""
        return self.median_ms is not None

    def take(self, summary, batch: int) -> None:
        """Record measured times: a `timing.Summary` for a batch of images."""
        self.layout, self.runs = summary.layout, summary.runs
        self.min_ms, self.median_ms = summary.min_ms, summary.median_ms
        self.p99_ms = summary.p99_ms if summary.runs >= _MANY else None
        self.samples_ms = tuple(round(ms, 6) for ms in summary.samples_ms)  # to a nanosecond, for short files
        self.images_s = 1e3 * batch / summary.median_ms


@dataclass
class BenchCase:
    """Measurements of one convolution of an edition, or of its network at one location, at one batch size.

    Rows are limits, ours and peers, in that order.
    """

    edition: str
    where: str  # a key of WHERE
    batch: int
    checked: int  # images compared with float64
    rows: List[Measurement] = field(default_factory=list)
    number: Optional[int] = None  # among the edition's convolutions, from 1; None for the network
    shape: Optional[ConvolutionShape] = None  # of the convolution
    auto: str = ""  # the kernel that `auto` runs on the convolution

    @property
    def name(self) -> str:
        """A short name of the case."""
        if self.number is None:
            return f"{self.edition} ({self.where}, {self.batch})"
        return f"{self.edition} convolution {self.number}"

    @property
    def title(self) -> str:
        """A title of the case."""
        if self.shape is not None:
            return f"{self.name}: {self.shape.title}"
        return f"{self.edition}, {self.batch:,} image{'s' if self.batch > 1 else ''}, {WHERE[self.where]}"

    @property
    def peers(self) -> List[str]:
        """Names of the peers that were timed."""
        return [row.name for row in self.rows if row.kind == PEER and row.timed]

    @property
    def timed(self) -> List[Measurement]:
        """The timed rows of ours and of peers, fastest first."""
        rows = [row for row in self.rows if row.timed and row.kind != LIMIT]
        return sorted(rows, key=lambda row: row.median_ms)  # type: ignore[arg-type, return-value]

    def row(self, name: str) -> Optional[Measurement]:
        """The row of a contender; None if there is none."""
        return next((row for row in self.rows if row.name == name), None)

    @property
    def fill_ms(self) -> Optional[float]:
        """The shortest time to write the output."""
        fill = self.row(FILL)
        return fill.median_ms if fill else None

    @property
    def below_floor(self) -> List[Measurement]:
        """Contenders that took less time than writing the output does, by more than noise.

        Caches and clocks make that possible; the write floor then does not apply to the case.
        """
        fill = self.fill_ms
        return [row for row in self.timed if fill and row.median_ms < (1 - _FLOOR_NOISE) * fill]  # type: ignore[operator]

    def rate(self, moved: Dict[str, int]) -> None:
        """Add the values that follow from the times: images, bytes and operations per second, and ratios.

        Parameters
        ----------
        moved
            The bytes that each limit moves, by name.
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
    """A check of a network's logits (the softmax's inputs) at one precision against float64, before timing."""

    edition: str
    name: str
    precision: str
    checked: int  # images
    status: str = OK
    reason: str = ""
    error: Optional[float] = None  # the largest, relative to the range of the logits
    changed: Optional[int] = None


@dataclass
class BenchResult:
    """A whole benchmark."""

    benchmark: str  # CONVOLUTIONS or NETWORKS
    backend: str
    device: Dict[str, Any]  # name, and other identification
    versions: Dict[str, str]
    command: str  # that repeats it
    batches: List[int]
    repeat: Optional[int]  # timed runs of each contender; None if they depend on the batch
    not_compared: Dict[str, str]  # peer: reason
    logits: List[LogitsCheck] = field(default_factory=list)
    cases: List[BenchCase] = field(default_factory=list)

    @property
    def wrong(self) -> List[str]:
        """A sentence for each incorrect contender."""
        checks = [f"{check.name} on {check.edition}" for check in self.logits if check.status == WRONG]
        rows = [(row, case) for case in self.cases for row in case.rows if row.status == WRONG]
        return checks + [f"{row.name} on {case.name}" for row, case in rows]

    def as_dict(self) -> Dict[str, Any]:
        """The whole result for JSON; `documents.read` reads it."""
        return {**asdict(self), "cases": [case.as_dict() for case in self.cases]}


def restored(data: Dict[str, Any]) -> BenchResult:
    """Restore a benchmark of convolutions or networks from the dictionary of `BenchResult.as_dict`.

    Fields that older files lack have their defaults. Raises KeyError or TypeError for anything else.
    """
    cases = []
    for each in data["cases"]:
        rows = [Measurement(**{**row, "samples_ms": tuple(row.get("samples_ms", ()))}) for row in each["rows"]]
        shape = ConvolutionShape(**each["shape"]) if each.get("shape") else None
        case = BenchCase(**{**each, "rows": rows, "shape": shape})
        case.rate({})  # recomputed, as older files may have percentages above 100
        cases.append(case)
    known = {"benchmark": NETWORKS, "repeat": None, **data}
    return BenchResult(**{**known, "logits": [LogitsCheck(**check) for check in data["logits"]], "cases": cases})
