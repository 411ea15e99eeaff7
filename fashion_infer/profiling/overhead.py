"""The overhead of profiling: passes with and without it, in turns in one process."""

import statistics
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

from ..result import LayerResult


class Schedule(NamedTuple):
    """The passes of a profiled run, by number: first those shown, then without and with the profiler in turn."""

    shown: int
    turns: int  # of each kind
    # Passes after each switch that do not count. When it is switched on, CUPTI sets up again in the first pass, which
    # slows down calls, and in some passes also the time between a kernel and its events.
    settling: int

    @property
    def total(self) -> int:
        return self.shown + 2 * self.turns * (self.settling + 1)

    def recorded(self, index: int) -> bool:
        """Whether the profiler is on in this pass."""
        return index < self.shown or (index - self.shown) // (self.settling + 1) % 2 == 1

    def counted(self, passes: Sequence[float]) -> Tuple[Sequence[float], Sequence[float]]:
        """The passes that count for the overhead, without and with the profiler."""
        each = self.settling + 1
        first = self.shown + self.settling
        return passes[first :: 2 * each], passes[first + each :: 2 * each]


class Overhead(NamedTuple):
    """A time in both kinds of passes. Medians in seconds."""

    what: str
    without: float
    profiled: float
    passes: int  # of each kind

    @property
    def ratio(self) -> float:
        """Time with the profiler over time without it."""
        return self.profiled / self.without


def measured(layers: Sequence[LayerResult], walls: Sequence[float], schedule: Schedule) -> List[Overhead]:
    """The overhead of each Op Time, and of a whole pass.

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
    """For JSON."""
    return {**overhead._asdict(), "ratio": overhead.ratio}
