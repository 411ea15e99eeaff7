"""Measures the overhead of profiling, from alternating passes with and without the profiler in one process."""

import statistics
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

from ..result import LayerResult


class Schedule(NamedTuple):
    """Order of the passes of a profiled run.

    First come the passes that the profile shows. Then passes without and with the profiler alternate.
    """

    shown: int
    turns: int  # number of counted passes of each kind, without and with the profiler
    # Number of passes after each switch that do not count. When CUPTI is switched on, it is set up again in the first
    # pass. This slows down calls, and in some passes also lengthens the time between a kernel and its events.
    settling: int

    @property
    def total(self) -> int:
        return self.shown + 2 * self.turns * (self.settling + 1)

    def recorded(self, index: int) -> bool:
        """Whether the profiler is on in this pass."""
        return index < self.shown or (index - self.shown) // (self.settling + 1) % 2 == 1

    def counted(self, passes: Sequence[float]) -> Tuple[Sequence[float], Sequence[float]]:
        """Return the passes that count for the overhead, without and with the profiler."""
        each = self.settling + 1
        first = self.shown + self.settling
        return passes[first :: 2 * each], passes[first + each :: 2 * each]


class Overhead(NamedTuple):
    """Median of a time in passes without and with the profiler, in seconds."""

    what: str
    without: float
    profiled: float
    passes: int  # number of passes of each kind

    @property
    def ratio(self) -> float:
        """Time with the profiler over time without it."""
        return self.profiled / self.without


def measured(layers: Sequence[LayerResult], walls: Sequence[float], schedule: Schedule) -> List[Overhead]:
    """Compute the overhead of each Op Time and of a whole pass.

    Parameters
    ----------
    layers
        Layers of a run with this schedule.
    walls
        Seconds of every pass of that run.
    """
    series = [(f"Op Time of {layer.name}", layer.seconds) for layer in layers if layer.custom]
    found = []
    for what, seconds in [*series, ("a whole pass", walls)]:
        without, profiled = schedule.counted(seconds)
        if without and profiled and statistics.median(without) > 0:
            pair = statistics.median(without), statistics.median(profiled)
            found.append(Overhead(what, *pair, len(profiled)))
    return found


def as_dict(overhead: Overhead) -> Dict[str, Any]:
    """Convert an overhead to a dictionary for JSON."""
    return {**overhead._asdict(), "ratio": overhead.ratio}
