"""Estimates the number of graders that a class needs, by simulating its queue until the last verdict.

People submit more often the closer the deadline is. The time from a submission to the deadline is drawn from an
exponential distribution, cut at the first day. Submissions are judged in the same order as on a board: round robin
among people, then first come, first served (see `store/queue.py`).
"""

import heapq
from typing import List, NamedTuple, Sequence

import numpy as np


class ClassLoad(NamedTuple):
    """A class and its submissions.

    Attributes
    ----------
    people, submissions
        Number of people, and of submissions per person on average.
    days
        Days from the first submission to the deadline.
    rush_hours
        Mean time from a submission to the deadline, in hours. Half of all submissions arrive in the last 0.69 times
        this time.
    seconds
        Mean duration of a judging, in seconds.
    spread
        Standard deviation of the duration, as a fraction of the mean.
    """

    people: int = 300
    submissions: float = 12.0
    days: float = 14.0
    rush_hours: float = 24.0
    seconds: float = 30.0
    spread: float = 0.3


class Waits(NamedTuple):
    """Statistics of waits. A wait is the time from a submission to the start of its judging, in seconds."""

    graders: int
    median: float
    p95: float
    longest: float
    after_deadline: float  # seconds from the deadline to the last verdict
    busy: float  # fraction of the graders' time in the day before the deadline


def estimate(load: ClassLoad, most_p95: float, seed: int = 0) -> List[Waits]:
    """Return the waits for 1, 2, ... graders, until the 95th percentile is at most `most_p95` seconds."""
    found: List[Waits] = []
    arrivals, who, takes = _drawn(load, np.random.default_rng(seed))
    graders = 1
    while True:
        found.append(simulated(load, graders, arrivals, who, takes))
        if found[-1].p95 <= most_p95 or graders >= 256:
            return found
        graders += 1


def _drawn(load: ClassLoad, rng: np.random.Generator):
    """Return times (s from the first day), people and durations (s) of all submissions, in order of time."""
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
    """Simulate the queue with a number of graders."""
    free = [0.0] * graders  # time at which each grader is free
    queue: List = []
    last_round = [-1] * load.people
    served = 0
    waits, ends, worked = [], [0.0], 0.0
    deadline = load.days * 86400
    index, count = 0, len(arrivals)
    while index < count or queue:
        grader = free[0]
        # Queue the submissions that have arrived when the next grader is free. If none waits, queue the next to arrive.
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
    return Waits(graders, float(np.median(found)), float(np.percentile(found, 95)), float(found.max()),
                 max(0.0, max(ends) - deadline), worked / (graders * 86400))  # fmt: skip
