"""Interleaved timing: contenders take turns, so that a drift of the clock rate affects all of them."""

import itertools
import statistics
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence

import numpy as np

_PAUSE = 0.1  # seconds; idle threads of ONNX Runtime 1.32 spin for 0.05 s after a run, on cores that others need
_ROUNDS = 4  # number of rounds; in each, every contender that is not slow has its turn
_SLOW_ROUNDS = 2  # number of rounds in which a slow contender has a turn
_MANY = 100  # least number of runs for a meaningful 99th percentile
_KEPT = 50  # largest number of a contender's times in a file; a rank test needs ten, and small batches have 300 runs


class Contender(NamedTuple):
    """Something to time. `run` starts one pass and returns its output; `sample` returns items of it as NumPy arrays."""

    name: str
    run: Callable[[], Any]
    sample: Optional[Callable] = None  # (output, indices) -> (n, ...); None for a limit, which computes nothing
    layout: str = ""  # name of the memory layout or other variant; of several variants, the fastest counts
    clock: Any = None  # the contender's own clock, if the case's clock is not suitable


def interleaved(
    clock,
    contenders: Sequence[Contender],
    repeat: int,
    tick: Callable[[float], None] = lambda share: None,
    warmup: int = 1,
) -> Dict[Contender, List[float]]:
    """Time `repeat` runs of every contender in turns, three of a slow one (`clock.slow`); return the seconds of each.

    Before, each contender has `warmup` runs, of which only the last one of a slow contender counts; each must have run
    once, so that its set-up is not timed. `tick` gets the fraction of turns that are done.
    """
    times: Dict[Contender, List[float]] = {}
    slow = {}
    step = 1 / ((_ROUNDS + 1) * max(1, len(contenders)))
    steps = itertools.count(1)
    for contender in contenders:
        own = contender.clock or clock
        warm = own.time(contender.run, warmup)[-1:]
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
    """A clock that measures wall-clock time, for runs that return only when their work is done."""

    def __init__(self, slow: float, pause: float = _PAUSE):
        self.slow = slow  # a run that takes longer than this, in seconds, is slow
        self._pause = pause

    def time(self, run, n: int) -> List[float]:
        time.sleep(self._pause)
        seconds = []
        for _ in range(n):
            start = time.perf_counter()
            run()
            seconds.append(time.perf_counter() - start)
        return seconds


def summaries(times: Dict[Contender, List[float]]) -> Dict[str, Dict[str, Any]]:
    """Return fields of a `Measurement` by the contender's name; of several layouts, those with the smallest median."""
    best: Dict[str, Dict[str, Any]] = {}
    for contender, seconds in times.items():
        ms = [1e3 * second for second in seconds]
        low, high, p99 = map(float, np.percentile(ms, (25, 75, 99)))
        found = {
            "layout": contender.layout,
            "runs": len(ms),
            "min_ms": min(ms),
            "median_ms": statistics.median(ms),
            "max_ms": max(ms),
            "outliers": sum(one > high + 1.5 * (high - low) for one in ms),
            "p99_ms": p99 if len(ms) >= _MANY else None,
            "samples_ms": tuple(round(one, 6) for one in ms[:: -(-len(ms) // _KEPT)]),
        }
        known = best.get(contender.name)
        if known is None or found["median_ms"] < known["median_ms"]:
            best[contender.name] = found
    return best
