"""What a benchmark knows: a row for each kernel, peer and limit, gathered by layer."""

from dataclasses import asdict, dataclass, field
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

LIMIT = "fill"  # writing the layer's output once: no layer that writes it can take less

KERNEL, PEER, COPYING = "kernel", "peer", "limit"
OK, WRONG, SKIPPED = "ok", "wrong", "skipped"


class Contender(NamedTuple):
    """Something to time. `run` starts one pass and returns its output, from which `sample` takes images as NumPy."""

    name: str
    run: Callable[[], Any]
    sample: Optional[Callable] = None  # (output, indices) -> (n,M,H,W); None for a limit, which computes nothing
    layout: str = ""  # or another way to run it; where there are several, the best of them counts


@dataclass
class Row:
    """A kernel, a peer or a limit on one layer."""

    name: str
    kind: str  # "kernel", "peer" or "limit"
    step: Optional[int] = None  # a kernel's place in the library's table, from 1
    summary: str = ""
    precision: str = ""
    status: str = OK  # "ok", "wrong" or "skipped" (the kernel does not take this layer)
    reason: str = ""  # why it is wrong or skipped
    layout: str = ""
    error: Optional[float] = None  # largest error over the largest magnitude, against float64
    runs: int = 0
    min_ms: Optional[float] = None
    median_ms: Optional[float] = None
    gb_s: Optional[float] = None  # input, weights and output, each moved once (a limit: what it moves itself)
    tflop_s: Optional[float] = None
    percent_of_limit: Optional[float] = None
    faster_than: Dict[str, float] = field(default_factory=dict)  # peer: its median over this one's


@dataclass
class Layer:
    """One convolution of one edition, and its rows: limits, kernels in the order of the table, peers."""

    edition: str
    number: int  # of the edition's convolutions, from 1
    shape: Tuple[int, int, int, int, int, int]  # B, C, H, W, M, K
    auto: str  # the kernel that `auto` would run
    rows: List[Row]

    @property
    def title(self) -> str:
        """The layer in words."""
        _, channels, height, width, filters, side = self.shape
        return (
            f"{self.edition} convolution {self.number}: {channels} to {filters} channels, {side}x{side}, "
            f"on {height}x{width}"
        )

    @property
    def peers(self) -> List[str]:
        """Names of the peers that were timed."""
        return [row.name for row in self.rows if row.kind == PEER]

    def as_dict(self) -> Dict[str, Any]:
        """The layer for JSON."""
        made = asdict(self)
        made["shape"] = dict(zip("BCHWMK", self.shape))
        return made


@dataclass
class Result:
    """A whole benchmark."""

    backend: str
    device: Dict[str, Any]  # name, and what else identifies it
    versions: Dict[str, str]
    command: str  # that makes it again
    batch: int
    repeat: int
    not_compared: Dict[str, str]  # peer: why not
    layers: List[Layer]

    @property
    def wrong(self) -> List[str]:
        """Each wrong kernel with its layer, in words."""
        return [
            f"{row.name} on {layer.edition} convolution {layer.number}"
            for layer in self.layers
            for row in layer.rows
            if row.status == WRONG
        ]

    def as_dict(self) -> Dict[str, Any]:
        """Everything, for JSON."""
        made = {k: v for k, v in vars(self).items() if k != "layers"}
        return {**made, "layers": [layer.as_dict() for layer in self.layers]}
