"""The noise of measured times: their spread, and the share of the processors' time that other programs used."""

import os
import statistics
import time
from pathlib import Path
from typing import NamedTuple, Optional, Sequence

LIMIT = 0.2  # a spread above this is named beside the time, which another measurement may not confirm
_LOADED = 0.05  # a share of the processors' time above this is named
_STAT = Path("/proc/stat")


def spread(times: Sequence[float]) -> Optional[float]:
    """Return the interquartile range of times (of fewer than four, the range) divided by their median; None for fewer
    than two times, and if the median is 0."""
    low, middle, high = _quartiles(times) if len(times) > 1 else (0.0, 0.0, 0.0)
    return (high - low) / middle if middle else None


def steady(times: Sequence[float], most: float = LIMIT) -> bool:
    found = spread(times)
    return found is not None and found <= most


def slow_end(times: Sequence[float]) -> float:
    return _quartiles(times)[2]


def _quartiles(times: Sequence[float]) -> Sequence[float]:
    if len(times) < 4:
        return min(times), statistics.median(times), max(times)
    return statistics.quantiles(times, n=4, method="inclusive")


def beside(*spreads: Optional[float]) -> str:
    """Return the largest of these spreads, to stand after a time or a ratio of times; "" up to the limit."""
    worst = max((one for one in spreads if one is not None), default=0.0)
    return f" (spread {worst:.1%})" if worst > LIMIT else ""


class ProcessorTime(NamedTuple):
    """What the processors that this process may use have done since the system's start, in seconds."""

    wall: float
    busy: float  # by all programs
    own: float  # by this process, and its children that have ended


def used() -> Optional[ProcessorTime]:
    try:
        rows = [line.split() for line in _STAT.read_text().splitlines()]
        may = {f"cpu{number}" for number in os.sched_getaffinity(0)}
        # user, nice, system, irq, softirq and steal; see proc(5)
        ticks = sum(int(row[place]) for row in rows if row[0] in may for place in (1, 2, 3, 6, 7, 8))
    except (OSError, ValueError, IndexError):
        return None
    return ProcessorTime(len(may) * time.monotonic(), ticks / os.sysconf("SC_CLK_TCK"), sum(os.times()[:4]))


def load(start: Optional[ProcessorTime]) -> Optional[float]:
    end = used()
    if start is None or end is None or end.wall <= start.wall:
        return None
    others = (end.busy - start.busy) - (end.own - start.own)
    return min(1.0, max(0.0, others / (end.wall - start.wall)))


def about_load(share: Optional[float]) -> str:
    return f"Other programs used {share:.0%} of the processors' time." if share and share > _LOADED else ""
