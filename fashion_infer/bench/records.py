"""Records that all benchmarks share: a result has cases, and a case has measurements of contenders."""

from dataclasses import asdict, dataclass, field
from typing import Any, Dict, List, Optional, Tuple

from ..graph.layers import ConvolutionShape
from ..system import noise

OURS, PEER, LIMIT = "ours", "peer", "limit"
OK, WRONG, SKIPPED = "ok", "wrong", "skipped"

# Limits only move the memory of a convolution's output. FILL is the write floor: the time to write the output.
FILL, COPY = "fill", "copy"
_FLOOR_NOISE = 0.05  # by up to this fraction, a time below the write floor counts as noise

CONVOLUTIONS, NETWORKS = "conv", "net"  # names of the benchmarks in their commands

# Where a case's inputs and outputs are, or which part of the network it runs.
MEMORY, DEVICE, HOST, STAGE = "memory", "device", "host", "stage"
WHERE = {
    MEMORY: "from images in memory to scores in memory",
    DEVICE: "from images on the device to scores on the device",
    HOST: "from images in pinned host memory to predictions on the host",
    STAGE: "convolution, tanh and pool alone, on the device",
}
_DIGITS = 7  # number of significant digits of a float in a file: more than a clock or float32 has


def short(value: Any) -> Any:
    """Round all floats in a value to seven digits, for JSON."""
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    if isinstance(value, dict):
        return {name: short(each) for name, each in value.items()}
    return [short(each) for each in value] if isinstance(value, (list, tuple)) else value


@dataclass
class Measurement:
    """Measurement of one contender in one case; if the contender has several variants, of the fastest."""

    name: str
    kind: str  # "ours", "peer" or "limit"
    step: Optional[int] = None  # step of the ladder of kernels, from 1; None for a contender outside the ladder
    summary: str = ""  # a kernel's idea, or what a limit does
    precision: str = ""  # "float32", "tf32" or "fp16" for our contenders; for a kernel file, the observed precision
    status: str = OK  # "ok", "wrong" or "skipped" (our contender does not support this case)
    reason: str = ""  # why the contender is wrong or skipped
    layout: str = ""  # name of the fastest variant
    error: Optional[float] = None  # largest difference from float64, relative to the range of the output
    changed: Optional[int] = None  # number of predictions that differ from float64's
    runs: int = 0  # number of timed runs
    min_ms: Optional[float] = None
    median_ms: Optional[float] = None
    max_ms: Optional[float] = None
    outliers: int = 0  # number of runs that took longer than the third quartile by more than 1.5 inter-quartile ranges
    p99_ms: Optional[float] = None  # 99th percentile; None for fewer than 100 runs
    samples_ms: Tuple[float, ...] = ()  # times of at most 50 of the runs, in order
    images_s: Optional[float] = None  # images per second
    gb_s: Optional[float] = None  # rate of moving input, weights and output once; for a limit, of all bytes moved
    tflop_s: Optional[float] = None
    percent_of_limit: Optional[float] = None  # the write floor's time as a percentage of this time, if it applies
    faster_than: Dict[str, float] = field(default_factory=dict)  # key: peer; value: its median divided by this median
    file: str = ""  # path of a kernel file
    layer_ms: Optional[float] = None  # median of prolog, forward and epilog together, for a format with phases
    findings: Tuple[str, ...] = ()  # observed misbehaviour of a kernel file

    @property
    def title(self) -> str:
        return f"{self.name} {self.layout}".rstrip()

    @property
    def timed(self) -> bool:
        return self.median_ms is not None

    @property
    def spread(self) -> Optional[float]:
        return noise.spread(self.samples_ms)


@dataclass
class BenchCase:
    """Measurements at one batch size: of one convolution, or of an edition's network with its data at one location.

    The rows are those of limits, of our contenders and of peers, in that order.
    """

    edition: str
    where: str  # a key of WHERE
    batch: int
    checked: int  # number of images that were compared with float64
    rows: List[Measurement] = field(default_factory=list)
    number: Optional[int] = None  # number of the convolution in the edition, from 1; None for a network
    shape: Optional[ConvolutionShape] = None  # shape of the convolution; None for a network
    auto: str = ""  # the kernel that `auto` runs on the convolution
    load: Optional[float] = None  # share of the processors' time that other programs used during the timing

    @property
    def name(self) -> str:
        if self.number is None:
            return f"{self.edition} ({self.where}, {self.batch})"
        return f"{self.edition} convolution {self.number}"

    @property
    def title(self) -> str:
        if self.shape is not None:
            return f"{self.name}: {self.shape.title}"
        return f"{self.edition}, {self.batch:,} image{'s' if self.batch > 1 else ''}, {WHERE[self.where]}"

    @property
    def peers(self) -> List[str]:
        return [row.name for row in self.rows if row.kind == PEER and row.timed]

    @property
    def timed(self) -> List[Measurement]:
        rows = [row for row in self.rows if row.timed and row.kind != LIMIT]
        return sorted(rows, key=lambda row: row.median_ms)  # type: ignore[arg-type, return-value]

    def row(self, name: str) -> Optional[Measurement]:
        return next((row for row in self.rows if row.name == name), None)

    @property
    def fill_ms(self) -> Optional[float]:
        fill = self.row(FILL)
        return fill.median_ms if fill else None

    @property
    def below_floor(self) -> List[Measurement]:
        """Rows of contenders faster than the write floor, which caches and varying clock rates make possible."""
        fill = self.fill_ms
        return [row for row in self.timed if fill and row.median_ms < (1 - _FLOOR_NOISE) * fill]  # type: ignore[operator]

    def rate(self, moved: Dict[str, int]) -> None:
        """Compute rates and ratios for each timed row; `moved` has the bytes that each limit moves, by name."""
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
        return {**short(asdict(self)), "shape": self.shape and self.shape._asdict()}


@dataclass
class LogitsCheck:
    """Result of comparing a network's logits (the softmax's inputs) at one precision with float64, before timing."""

    edition: str
    name: str
    precision: str
    checked: int  # number of compared images
    status: str = OK
    reason: str = ""
    error: Optional[float] = None  # largest error, relative to the range of the logits
    changed: Optional[int] = None  # number of changed predictions


@dataclass
class BenchResult:
    """Result of a whole benchmark."""

    benchmark: str  # CONVOLUTIONS or NETWORKS
    backend: str
    device: Dict[str, Any]  # name and other identification of the device
    versions: Dict[str, str]
    command: str  # command line that repeats the benchmark
    batches: List[int]
    repeat: Optional[int]  # number of timed runs of each contender; None if it depends on the batch
    not_compared: Dict[str, str]  # key: a peer; value: why it is not compared
    logits: List[LogitsCheck] = field(default_factory=list)
    cases: List[BenchCase] = field(default_factory=list)

    def __repr__(self) -> str:
        """The benchmark, its device and what is incorrect, without the measurements."""
        wrong = f"; WRONG: {', '.join(self.wrong)}" if self.wrong else ""
        return f"<BenchResult: bench {self.benchmark}, {self.device.get('name')}, {len(self.cases)} case(s){wrong}>"

    @property
    def wrong(self) -> List[str]:
        """A phrase for each incorrect contender, "NAME on CASE"."""
        checks = [f"{check.name} on {check.edition}" for check in self.logits if check.status == WRONG]
        rows = [(row, case) for case in self.cases for row in case.rows if row.status == WRONG]
        return checks + [f"{row.name} on {case.name}" for row, case in rows]

    def as_dict(self) -> Dict[str, Any]:
        return {**asdict(self), "cases": [case.as_dict() for case in self.cases]}


def restored(data: Dict[str, Any]) -> BenchResult:
    """Restore a benchmark from `BenchResult.as_dict`; KeyError or TypeError for other dictionaries."""
    cases = []
    for each in data["cases"]:
        rows = [Measurement(**{**row, "samples_ms": tuple(row["samples_ms"])}) for row in each["rows"]]
        shape = ConvolutionShape(**each["shape"]) if each["shape"] else None
        cases.append(BenchCase(**{**each, "rows": rows, "shape": shape}))
    return BenchResult(**{**data, "logits": [LogitsCheck(**check) for check in data["logits"]], "cases": cases})
