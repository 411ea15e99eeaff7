"""What the benchmark of whole networks knows: rows, gathered by case, gathered by network."""

from dataclasses import asdict, dataclass, field
from typing import Any, Dict, List, Optional

from .rows import OK, WRONG

OURS, PEER = "ours", "peer"
MEMORY, DEVICE, HOST, STAGE = "memory", "device", "host", "stage"  # what a case runs, and from where to where
WHERE = {
    MEMORY: "from images in memory to scores in memory",
    DEVICE: "from images on the device to scores on the device",
    HOST: "from images in pinned host memory to predictions on the host",
    STAGE: "convolution, tanh and pool alone, on the device",
}
_MANY = 100  # runs from which a 99th percentile means something


@dataclass
class Row:
    """Ours at one precision, or a peer, in one case. Of several ways to run it, the fastest."""

    name: str
    kind: str  # "ours" or "peer"
    precision: str = ""  # of ours
    status: str = OK  # "ok", "wrong" or "skipped"
    reason: str = ""  # why it is wrong or skipped
    layout: str = ""
    error: Optional[float] = None  # against float64, over the range of what is compared: see net.py
    changed: Optional[int] = None  # predictions that differ from float64's
    runs: int = 0
    min_ms: Optional[float] = None
    median_ms: Optional[float] = None
    p99_ms: Optional[float] = None  # of 100 runs and more
    images_s: Optional[float] = None
    faster_than: Dict[str, float] = field(default_factory=dict)  # ours: a peer's median over this one's

    def take(self, summary, batch: int) -> None:
        """Put measured times in."""
        self.layout, self.runs = summary.layout, summary.runs
        self.min_ms, self.median_ms = summary.min_ms, summary.median_ms
        self.p99_ms = summary.p99_ms if summary.runs >= _MANY else None
        self.images_s = 1e3 * batch / summary.median_ms


@dataclass
class Case:
    """One network in one place at one batch size; rows of ours first."""

    edition: str
    where: str  # a key of WHERE
    batch: int
    checked: int  # images compared with float64
    rows: List[Row]

    @property
    def title(self) -> str:
        """The case in words."""
        return f"{self.edition}, {self.batch:,} image{'s' if self.batch > 1 else ''}, {WHERE[self.where]}"

    @property
    def peers(self) -> List[str]:
        """Names of the peers that were timed."""
        return [row.name for row in self.rows if row.kind == PEER]


@dataclass
class Logits:
    """The check of one precision before anything is timed: logits of the network without its softmax."""

    edition: str
    name: str
    precision: str
    checked: int  # images
    status: str = OK
    reason: str = ""
    error: Optional[float] = None  # the largest, over the range of the logits
    changed: Optional[int] = None


@dataclass
class Result:
    """A whole benchmark."""

    backend: str
    device: Dict[str, Any]
    versions: Dict[str, str]
    command: str  # that makes it again
    batches: List[int]
    not_compared: Dict[str, str]  # peer: why not
    logits: List[Logits] = field(default_factory=list)
    cases: List[Case] = field(default_factory=list)

    @property
    def wrong(self) -> List[str]:
        """What is wrong, in words."""
        found = [f"{check.name} on {check.edition}" for check in self.logits if check.status == WRONG]
        found += [
            f"{row.name} on {case.edition} ({case.where}, {case.batch})"
            for case in self.cases
            for row in case.rows
            if row.status == WRONG
        ]
        return found

    def as_dict(self) -> Dict[str, Any]:
        """Everything, for JSON."""
        return asdict(self)
