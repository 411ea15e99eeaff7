"""The cost of profiling itself: passes with and without it, taking turns in one process."""

import statistics
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

from ..result import LayerResult


class Schedule(NamedTuple):
    """The passes of a profiled run, by number: those that are shown, then without and with the profiler in turn."""

    shown: int
    turns: int  # of each kind
    # Passes behind each switch that do not count. CUPTI sets up again in the first when it is switched on: on an H200
    # 0.3 ms of the calls, and in some passes 40 us between a kernel of 46 us and its events.
    settling: int

    @property
    def total(self) -> int:
        return self.shown + 2 * self.turns * (self.settling + 1)

    def recorded(self, index: int) -> bool:
        """Whether the profiler is on in this pass."""
        return index < self.shown or (index - self.shown) // (self.settling + 1) % 2 == 1

    def counted(self, passes: Sequence[float]) -> Tuple[Sequence[float], Sequence[float]]:
        """The passes that count for the overhead, without the profiler and with it."""
        each = self.settling + 1
        first = self.shown + self.settling
        return passes[first :: 2 * each], passes[first + each :: 2 * each]


class Overhead(NamedTuple):
    """Something timed in both kinds of passes. Medians in seconds."""

    what: str
    without: float
    profiled: float
    passes: int  # of each kind

    @property
    def ratio(self) -> float:
        """Profiled over without."""
        return self.profiled / self.without


def measured(layers: Sequence[LayerResult], walls: Sequence[float], schedule: Schedule) -> List[Overhead]:
    """The overhead of each Op Time, and of a whole pass.

    Parameters
    ----------
    layers
        Of a run by this schedule.
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
