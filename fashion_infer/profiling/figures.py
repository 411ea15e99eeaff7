"""The figures of a profile, for display and for its JSON."""

import statistics
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


class Schedule(NamedTuple):
    """Order of passes: those that the profile shows, then passes without and with the profiler alternate."""

    shown: int  # number of passes that the profile shows
    turns: int  # number of passes without the profiler that count for the overhead, and also of passes with it
    # Number of passes that do not count, after the profiler is switched on or off. When CUPTI is switched on, it is set
    # up again in the first pass. This slows down calls, and may lengthen the time between a kernel and its events.
    settling: int

    @property
    def total(self) -> int:
        return self.shown + 2 * self.turns * (self.settling + 1)

    def recorded(self, index: int) -> bool:
        """Return whether the profiler is on in pass `index`."""
        return index < self.shown or (index - self.shown) // (self.settling + 1) % 2 == 1

    def counted(self, passes: Sequence[float]) -> Tuple[Sequence[float], Sequence[float]]:
        """Return those passes that count for the overhead: first those without the profiler, then those with it."""
        each = self.settling + 1
        first = self.shown + self.settling
        return passes[first :: 2 * each], passes[first + each :: 2 * each]


class Overhead(NamedTuple):
    """Median times of the same work in passes without and with the profiler, in seconds."""

    what: str
    without: float
    profiled: float
    passes: int  # number of passes with the profiler

    @property
    def ratio(self) -> float:
        return self.profiled / self.without

    def as_dict(self) -> Dict[str, Any]:
        return {**self._asdict(), "ratio": self.ratio}


def overheads(layers: Sequence[LayerResult], walls: Sequence[float], schedule: Schedule) -> List[Overhead]:
    """Compute the overhead of each Op Time and of a whole pass; `walls` are the seconds of every pass."""
    series = [(f"Op Time of {layer.name}", layer.seconds) for layer in layers if layer.custom]
    found = []
    for what, seconds in [*series, ("a whole pass", walls)]:
        without, profiled = schedule.counted(seconds)
        if without and profiled and statistics.median(without) > 0:
            pair = statistics.median(without), statistics.median(profiled)
            found.append(Overhead(what, *pair, len(profiled)))
    return found


class Figures(NamedTuple):
    """All figures of a profile. They do not include its records, which only a timeline needs."""

    tables: List[ProfileTable]  # activities of the GPU or CPU, then calls into CUDA or MXNet
    usage: Optional[Usage] = None  # resources that the program used until the end of the profiled passes
    throughput: Sequence[Throughput] = ()
    ceilings: Optional[Dict[str, float]] = None  # see `bench.ceilings.measure`
    no_ceilings: Optional[str] = None  # why there are no ceilings
    overhead: Sequence[Overhead] = ()

    def as_dict(self) -> Dict[str, Any]:
        """Return the figures as a dictionary for JSON. Times in tables are in nanoseconds, all others in seconds."""
        return {
            "tables": [tables.as_dict(table) for table in self.tables],
            "usage": self.usage and self.usage._asdict(),
            "throughput": [one.as_dict() for one in self.throughput],
            "ceilings": self.ceilings,
            "no_ceilings": self.no_ceilings,
            "overhead": [one.as_dict() for one in self.overhead],
        }


def from_dict(data: Dict[str, Any]) -> Figures:
    """Restore figures from the dictionary of `as_dict`; raise KeyError or TypeError for anything else."""
    return Figures(
        tables=[ProfileTable(table["title"], _each(tables.Row, table["rows"])) for table in data["tables"]],
        usage=Usage(**data["usage"]),
        throughput=_each(Throughput, data["throughput"]),
        ceilings=data["ceilings"],
        no_ceilings=data["no_ceilings"],
        overhead=_each(Overhead, data["overhead"]),
    )


def _each(kind, rows):
    """Create a named tuple of type `kind` from each dictionary, ignoring keys that are not fields."""
    return [kind(*(row[field] for field in kind._fields)) for row in rows]
