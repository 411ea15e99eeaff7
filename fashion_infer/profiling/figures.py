"""The figures of a profile, for display and for its JSON."""

import math
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ..inference.layer_times import LayerResult
from ..library.op_times import OpTime
from ..system.process import Usage
from . import tables
from .tables import ProfileTable


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

    def as_dict(self) -> Dict[str, Any]:
        return {**self._asdict(), "gb_s": self.gb_s, "tflop_s": self.tflop_s}


def throughputs(layers: Sequence[LayerResult]) -> List[Throughput]:
    """Return the throughput of a run's convolutions in network order, from median times and the first pass's log."""
    logs = [layer.log[0] if layer.log else () for layer in layers]
    found = []
    for index, (layer, log) in enumerate(zip(layers, logs)):
        if not layer.custom or not log or layer.median <= 0:
            continue
        after = next((other[0] for other in logs[index + 1 :] if other), None) if layer.kernel == "fused" else None
        moved = sum(_bytes(op, after) for op in log)
        found.append(Throughput(layer.name, layer.kernel, layer.median, moved, sum(op.shape.operations for op in log)))
    return found


def _bytes(op: OpTime, after: Optional[OpTime]) -> int:
    """Return bytes of input, weights and output; a pooled output has the size of `after`, the next stage's input."""
    shape = op.shape
    outputs = shape.outputs if after is None else shape.B * math.prod(after.shape.data[1:])
    return op.item_bytes * math.prod(shape.data) + 4 * (math.prod(shape.weights) + outputs)


def shares(gb_s: float, tflop_s: float, ceilings: Optional[Dict[str, float]]) -> Tuple[Optional[float], ...]:
    """Return `gb_s` divided by the fill ceiling, and `tflop_s` by the float32 ceiling; None for an unknown ceiling."""
    known = ceilings or {}
    held_to = ((gb_s, "fill_gb_s"), (tflop_s, "fp32_tflop_s"))
    return tuple(rate / known[name] if name in known else None for rate, name in held_to)


class Figures(NamedTuple):
    """All figures of a profile. They do not include its records, which only a timeline needs."""

    tables: List[ProfileTable]  # activities of the GPU or CPU, then calls into CUDA or MXNet
    usage: Optional[Usage] = None  # resources that the program used until the end of the profiled passes
    throughput: Sequence[Throughput] = ()
    ceilings: Optional[Dict[str, float]] = None  # see `bench.ceilings.measure`
    no_ceilings: Optional[str] = None  # why there are no ceilings
    passes: int = 0  # number of passes without the profiler, whose times give the throughput; 0 if there were none

    def as_dict(self) -> Dict[str, Any]:
        """Return the figures as a dictionary for JSON. Times in tables are in nanoseconds, all others in seconds."""
        return {
            "tables": [tables.as_dict(table) for table in self.tables],
            "usage": self.usage and self.usage._asdict(),
            "throughput": [one.as_dict() for one in self.throughput],
            "ceilings": self.ceilings,
            "no_ceilings": self.no_ceilings,
            "passes": self.passes,
        }


def from_dict(data: Dict[str, Any]) -> Figures:
    """Restore figures from the dictionary of `as_dict`; raise KeyError or TypeError for anything else."""
    return Figures(
        tables=[ProfileTable(table["title"], _each(tables.Row, table["rows"])) for table in data["tables"]],
        usage=Usage(**data["usage"]),
        throughput=_each(Throughput, data["throughput"]),
        ceilings=data["ceilings"],
        no_ceilings=data["no_ceilings"],
        passes=data["passes"],
    )


def _each(kind, rows):
    """Create a named tuple of type `kind` from each dictionary, ignoring keys that are not fields."""
    return [kind(*(row[field] for field in kind._fields)) for row in rows]
