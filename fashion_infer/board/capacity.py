"""Estimates how long a class waits with 1, 2, ... graders, by simulating its queue until the last verdict.

The time from a submission to the deadline has an exponential distribution: most submissions arrive late.
"""

import heapq
from typing import List, NamedTuple, Sequence

import numpy as np


class ClassLoad(NamedTuple):
    """Assumptions about a class and its submissions."""

    people: int = 300
    submissions: float = 12.0  # mean per person
    days: float = 14.0  # from the first possible submission to the deadline
    rush_hours: float = 24.0  # mean from submission to deadline; half of them arrive in the last 0.69 times this
    seconds: float = 30.0  # mean duration of a judging
    spread: float = 0.3  # standard deviation of the duration, as a fraction of the mean


class Waits(NamedTuple):
    """Waits with a number of graders. A wait is the time in seconds from a submission to the start of its judging."""

    graders: int
    median: float
    p95: float  # 95th percentile
    longest: float
    after_deadline: float  # seconds from the deadline to the last verdict
    busy: float  # fraction of the last day before the deadline in which graders were busy


def estimate(load: ClassLoad, most_p95: float) -> List[Waits]:
    """Return the waits with 1, 2, ... (at most 256) graders, until the 95th percentile is at most `most_p95` s."""
    found: List[Waits] = []
    arrivals, who, takes = _drawn(load, np.random.default_rng(0))
    graders = 1
    while True:
        found.append(simulated(load, graders, arrivals, who, takes))
        if found[-1].p95 <= most_p95 or graders >= 256:
            return found
        graders += 1


def _drawn(load: ClassLoad, rng: np.random.Generator):
    """Return the times (in seconds from the beginning of the first day), people and durations of random submissions."""
    count = int(rng.poisson(load.people * load.submissions))
    deadline = load.days * 86400
    before = rng.exponential(load.rush_hours * 3600, 4 * count + 100)
    before = before[before <= deadline][:count]
    arrivals = np.sort(deadline - before)
    who = rng.integers(0, load.people, len(arrivals))
    shape = 1 / max(load.spread, 1e-3) ** 2
    takes = rng.gamma(shape, load.seconds / shape, len(arrivals))
    return arrivals, who, takes


def simulated(
    load: ClassLoad, graders: int, arrivals: Sequence[float], who: Sequence[int], takes: Sequence[float]
) -> Waits:
    """Return the waits for submissions at ascending times `arrivals` (s), by persons `who`, that take `takes` s."""
    free = [0.0] * graders  # a heap of the times at which the graders are free
    queue: List = []
    last_round = [-1] * load.people
    served = 0
    waits, ends, worked = [], [0.0], 0.0
    deadline = load.days * 86400
    index, count = 0, len(arrivals)
    while index < count or queue:
        grader = free[0]
        # Queue the submissions that arrive before the next grader is free; if there are none, queue the next one.
        while index < count and (arrivals[index] <= grader or not queue):
            turn = max(served, last_round[who[index]] + 1)
            last_round[who[index]] = turn
            heapq.heappush(queue, (turn, arrivals[index], index))
            index += 1
            grader = max(grader, arrivals[index - 1]) if len(queue) == 1 else grader
        turn, arrived, which = heapq.heappop(queue)
        served = max(served, turn)
        start = max(free[0], arrived)
        heapq.heapreplace(free, start + takes[which])
        waits.append(start - arrived)
        ends.append(start + takes[which])
        worked += max(0.0, min(start + takes[which], deadline) - max(start, deadline - 86400))
    found = np.array(waits if waits else [0.0])
    return Waits(
        graders,
        float(np.median(found)),
        float(np.percentile(found, 95)),
        float(found.max()),
        max(0.0, max(ends) - deadline),
        worked / (graders * 86400),
    )
