"""What profiling itself costs: passes with and without it, taking turns in one process."""

import statistics
from typing import Any, Dict, List, NamedTuple, Sequence

from ..pipeline import Layer


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


def measured(layers: Sequence[Layer], walls: Sequence[float], first: int) -> List[Overhead]:
    """Of each Op Time, and of a whole pass.

    Parameters
    ----------
    layers
        Of a run whose passes from number `first` on were in turn without the profiler and with it.
    walls
        Seconds of every pass of that run.
    """
    series = [(f"Op Time of {layer.name}", layer.seconds) for layer in layers if layer.custom]
    found = []
    for what, seconds in [*series, ("a whole pass", walls)]:
        without, profiled = seconds[first::2], seconds[first + 1 :: 2]
        if without and profiled and statistics.median(without) > 0:
            pair = statistics.median(without), statistics.median(profiled)
            found.append(Overhead(what, *pair, len(profiled)))
    return found


def as_dict(overhead: Overhead) -> Dict[str, Any]:
    """For JSON."""
    return {**overhead._asdict(), "ratio": overhead.ratio}
