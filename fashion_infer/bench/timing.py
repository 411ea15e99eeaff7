"""Timing side by side: contenders take turns, so that a clock that drifts drifts for all of them."""

from typing import Dict, List, Sequence

from .rows import Contender

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
