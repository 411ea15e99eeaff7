"""Measures the overhead of profiling, from alternating passes with and without the profiler in one process."""

import statistics
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

from ..result import LayerResult


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


def of_layers(layers: Sequence[LayerResult], walls: Sequence[float], schedule: Schedule) -> List[Overhead]:
    """Compute the overhead of each Op Time and of a whole pass; `walls` are the seconds of every pass."""
    series = [(f"Op Time of {layer.name}", layer.seconds) for layer in layers if layer.custom]
    found = []
    for what, seconds in [*series, ("a whole pass", walls)]:
        without, profiled = schedule.counted(seconds)
        if without and profiled and statistics.median(without) > 0:
            pair = statistics.median(without), statistics.median(profiled)
            found.append(Overhead(what, *pair, len(profiled)))
    return found


def as_dict(overhead: Overhead) -> Dict[str, Any]:
    return {**overhead._asdict(), "ratio": overhead.ratio}
