"""Timing side by side: contenders take turns, so that a clock that drifts drifts for all of them."""

import itertools
import statistics
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

_PAUSE = 0.1  # seconds: idle threads of ONNX Runtime 1.32 spin for 0.05 after its last run, on cores that others need
_ROUNDS = 4
_SLOW_ROUNDS = 2
_KEPT = 50  # samples in a file: a rank test needs ten, and small batches have 300 runs


class Contender(NamedTuple):
    """Something to time. `run` starts one pass and returns its output, of which `sample` takes items as NumPy."""

    name: str
    run: Callable[[], Any]
    sample: Optional[Callable] = None  # (output, indices) -> (n, ...); None for a limit, which computes nothing
    layout: str = ""  # or another way to run it; where there are several, the fastest counts
    clock: Any = None  # of its own, where the case's does not suit it


def interleaved(
    clock, contenders: Sequence[Contender], repeat: int, tick: Callable[[float], None] = lambda share: None
) -> Dict[Contender, List[float]]:
    """Seconds of each of at least `repeat` runs of every contender; of three runs for one that is slow.

    Parameters
    ----------
    clock
        Its `time(run, n)` gives the seconds of n runs, its `slow` what counts as slow. A contender may have its own.
    contenders
        Run once before, each: what they set up in their first run is not timed.
    repeat
        At least 1.
    tick
        Called between runs with the share of the runs that are done, 0 to 1.
    """
    times: Dict[Contender, List[float]] = {}
    slow = {}
    step = 1 / ((_ROUNDS + 1) * max(1, len(contenders)))
    steps = itertools.count(1)
    for contender in contenders:
        own = contender.clock or clock
        warm = own.time(contender.run, 1)
        slow[contender] = warm[0] > own.slow
        times[contender] = warm if slow[contender] else []
        tick(step * next(steps))
    for turn in range(_ROUNDS):
        for contender in contenders:
            own = contender.clock or clock
            if not slow[contender]:
                todo = (repeat * (turn + 1)) // _ROUNDS - (repeat * turn) // _ROUNDS
                times[contender] += own.time(contender.run, todo) if todo else []
            elif turn < _SLOW_ROUNDS:
                times[contender] += own.time(contender.run, 1)
            tick(step * next(steps))
    return times


class WallClock:
    """A clock for runs that end when their work is done."""

    def __init__(self, slow: float):
        self.slow = slow  # seconds a run

    def time(self, run, n: int) -> List[float]:
        """Seconds of each of n runs."""
        time.sleep(_PAUSE)
        seconds = []
        for _ in range(n):
            start = time.perf_counter()
            run()
            seconds.append(time.perf_counter() - start)
        return seconds


class Summary(NamedTuple):
    """The times of one contender; of several layouts, those of the layout with the least median."""

    layout: str
    runs: int
    min_ms: float
    median_ms: float
    p99_ms: float
    samples_ms: Tuple[float, ...] = ()  # in the order of the runs; of more than _KEPT some, evenly spaced


def summaries(times: Dict[Contender, List[float]]) -> Dict[str, Summary]:
    """The summary of every name among the contenders, in their order."""
    best: Dict[str, Summary] = {}
    for contender, seconds in times.items():
        ms = [1e3 * second for second in seconds]
        p99 = float(np.percentile(ms, 99))
        kept = tuple(round(one, 6) for one in ms[:: -(-len(ms) // _KEPT)])
        summary = Summary(contender.layout, len(ms), min(ms), statistics.median(ms), p99, kept)
        known = best.get(contender.name)
        if known is None or summary.median_ms < known.median_ms:
            best[contender.name] = summary
    return best
