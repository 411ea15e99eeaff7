"""Timing side by side: contenders take turns, so that a clock that drifts drifts for all of them."""

import statistics
import time
from typing import Dict, List, NamedTuple, Sequence

import numpy as np

from .rows import Contender

_PAUSE = 0.02  # seconds: a peer's idle threads spin for some milliseconds after its last run
_ROUNDS = 4
_SLOW_ROUNDS = 2


def interleaved(machine, contenders: Sequence[Contender], repeat: int) -> Dict[Contender, List[float]]:
    """Seconds of each of at least `repeat` runs of every contender; of three runs for one that is slow.

    Parameters
    ----------
    machine
        Where they run: its `time(run, n)` gives the seconds of n runs, its `slow` what counts as slow.
    contenders
        Run once before, each: what they set up in their first run is not timed.
    repeat
        At least 1.
    """
    times: Dict[Contender, List[float]] = {}
    slow = {}
    for contender in contenders:
        warm = machine.time(contender.run, 1)
        slow[contender] = warm[0] > machine.slow
        times[contender] = warm if slow[contender] else []
    for turn in range(_ROUNDS):
        for contender in contenders:
            if not slow[contender]:
                todo = (repeat * (turn + 1)) // _ROUNDS - (repeat * turn) // _ROUNDS
                times[contender] += machine.time(contender.run, todo) if todo else []
            elif turn < _SLOW_ROUNDS:
                times[contender] += machine.time(contender.run, 1)
    return times


def wall_clock(run, n: int) -> List[float]:
    """Seconds of each of n runs, each of which ends when its work is done."""
    time.sleep(_PAUSE)
    found = []
    for _ in range(n):
        start = time.perf_counter()
        run()
        found.append(time.perf_counter() - start)
    return found


class Summary(NamedTuple):
    """What the runs of one name say; of several layouts, the one with the least median."""

    layout: str
    runs: int
    min_ms: float
    median_ms: float
    p99_ms: float


def summaries(times: Dict[Contender, List[float]]) -> Dict[str, Summary]:
    """The summary of every name among the contenders, in their order."""
    found: Dict[str, Summary] = {}
    for contender, seconds in times.items():
        ms = [1e3 * second for second in seconds]
        p99 = float(np.percentile(ms, 99))
        summary = Summary(contender.layout, len(ms), min(ms), statistics.median(ms), p99)
        best = found.get(contender.name)
        if best is None or summary.median_ms < best.median_ms:
            found[contender.name] = summary
    return found
