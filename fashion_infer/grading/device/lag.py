"""Measures the lag: the time that a bracket of calls in a worker takes in addition to its kernels.

It is the time of a bracket of a kernel of ours by the referee's clock (messages, switches between contexts, a cold
device), minus that of the same calls in the referee's process by the device's events. It is measured before the first
submission runs, in a box of the same kind. docs/notebook.md describes the alternatives that were tried.
"""

import statistics
import tempfile
from pathlib import Path
from typing import Any, List, NamedTuple, Sequence

import numpy as np

from ...errors import DeviceError
from ...graph.layers import ConvolutionShape
from ...judging.inputs import KeyedStream, random_inputs
from ..inside import driver
from ..referee import memory
from ..referee.memory import place
from ..referee.session import Session
from ..referee.tensors import NO_LAG, Lag
from ..sandbox import Box, Broken, Limits
from . import known

_SHAPE = ConvolutionShape(5000, 1, 28, 28, 50, 5)
_CALLS = 15  # number of brackets
_WARM = 3  # number of brackets at the beginning that do not count
# Number of floats that are filled between two brackets. In grading, the referee checks outputs on all cores between
# brackets, so that the caches hold other data. The lag must include this effect.
_SWEPT = 64 << 20
_LIMITS = Limits(seconds=30.0, memory=4 << 30, disk=64 << 20, printed=1 << 16)


def measured(gpu: Any, machine: Any, kernel: Any = known) -> Lag:
    """Measure the lag of a `Gpu` in the sandbox of a `referee.Machine`; return `NO_LAG` if there is no compiler.
    `kernel` is a module like `known`: `built` builds it as a submission, and `queue` calls it in this process."""
    with tempfile.TemporaryDirectory(prefix="fashion-infer.") as folder:
        plugin = kernel.built(Path(folder))
        if plugin is None:
            return NO_LAG
        tensors = gpu.tensors([place(_SHAPE)])
        # With a lag of 0, the session subtracts nothing from the measured time.
        tensors.lag = Lag(0.0, float("inf"))
        try:
            box = gpu.shown(Box(_LIMITS, read=(str(plugin.path), *plugin.read)))
            with Session(box, machine.layers, tensors.shared) as session:
                session.load(plugin, True, tensors.shared.device)
                seen = _brackets(session, tensors, kernel)[_WARM:]
        except Broken as error:
            raise DeviceError(f"a kernel of ours does not run in the sandbox: {error}") from None
        finally:
            tensors.close()
    turn = max(NO_LAG.turn, 1.5 * statistics.quantiles((bracket.turn for bracket in seen), n=10)[-1])
    return Lag(beside(seen), turn)


class Bracket(NamedTuple):
    taken: float  # from the referee's message to the worker's reply
    alone: float  # time of the same calls in the referee's process, by the device's events
    turn: float  # from the worker's reply until the device answered the referee


def beside(brackets: Sequence[Bracket]) -> float:
    taken, alone = (statistics.median(values) for values in zip(*(bracket[:2] for bracket in brackets)))
    return max(0.0, taken - alone)


def _brackets(session: Session, tensors: Any, kernel: Any) -> List[Bracket]:
    bracket, stream = tensors.bracket(True), KeyedStream(b"")
    session.case(_SHAPE, [slot.prepare(_SHAPE, stream) for slot in bracket], tensors.on_device)
    given = random_inputs(stream, _SHAPE)
    swept = np.zeros(_SWEPT, np.float32)
    seen = []

    def queue(slots: Sequence[Any]) -> None:
        for slot in slots:
            kernel.queue(_SHAPE, *slot.addresses)

    for number in range(_CALLS):
        for slot in bracket:
            slot.fill(given, 0.0)
        memory.fill(swept, number)
        taken = len(bracket) * session.call(number, tensors, bracket).seconds
        turn = tensors.turn
        queue(bracket[:1])  # so that the device is busy when the timed work begins
        seen.append(Bracket(taken, driver.timed(lambda: queue(bracket)), turn))
    return seen
