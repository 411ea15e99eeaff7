"""Throughput of each convolution: bytes and operations per second, as fractions of the device's ceilings."""

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ..library.op_times import OpTime
from ..result import LayerResult


class Throughput(NamedTuple):
    """Throughput of a convolution, whose tensors move once, and whose multiply-adds are two operations."""

    layer: str
    kernel: str
    seconds: float  # Op Time, median over passes
    bytes: int
    operations: int

    @property
    def gb_s(self) -> float:
        return self.bytes / self.seconds / 1e9

    @property
    def tflop_s(self) -> float:
        return self.operations / self.seconds / 1e12


def of(layers: Sequence[LayerResult]) -> List[Throughput]:
    """Return the throughput of a run's convolutions in network order, from median times and the first pass's log."""
    logs = [layer.log[0] if layer.log else () for layer in layers]
    found = []
    for index, (layer, log) in enumerate(zip(layers, logs)):
        if not layer.custom or not log or layer.median <= 0:
            continue
        after = next((other[0] for other in logs[index + 1 :] if other), None) if layer.kernel == "fused" else None
        moved = sum(_bytes(op, after) for op in log)
        found.append(Throughput(layer.name, layer.kernel, layer.median, moved, sum(op.operations for op in log)))
    return found


def _bytes(op: OpTime, after: Optional[OpTime]) -> int:
    """Return bytes of input, weights and output; a pooled output has the size of `after`, the next stage's input."""
    images, channels, height, width, filters, size = op.shape
    out = filters * (height - size + 1) * (width - size + 1)
    if after is not None:
        _, *item, _, _ = after.shape
        out = item[0] * item[1] * item[2]
    return images * channels * height * width * op.item_bytes + 4 * (filters * channels * size**2 + images * out)


def shares(gb_s: float, tflop_s: float, ceilings: Optional[Dict[str, float]]) -> Tuple[Optional[float], ...]:
    """Return `gb_s` divided by the fill ceiling, and `tflop_s` by the float32 ceiling; None for an unknown ceiling."""
    known = ceilings or {}
    held_to = ((gb_s, "fill_gb_s"), (tflop_s, "fp32_tflop_s"))
    return tuple(rate / known[name] if name in known else None for rate, name in held_to)


def as_dict(t: Throughput) -> Dict[str, Any]:
    return {**t._asdict(), "gb_s": t.gb_s, "tflop_s": t.tflop_s}
