"""Measures the lag: the time that a call in a worker takes in addition to its kernels, with a kernel of ours.

A call in a sandbox takes longer than its kernels. Two messages go between processes, the processor that launches the
kernels did other work before, the device switches from one context to another and back, and the device starts cold.
This overhead occurs once per bracket (a group of calls that are timed together) and is not part of a submission's time.

The lag is the time of a bracket of our kernel by the referee's clock, minus the time of the same calls in the referee's
own process. The latter run one after another and are timed by the device's events, as in `bench conv`. The lag is
measured before any submission is present, by a worker and a box of the same kind, so that no submission can affect it.
docs/notebook.md describes the alternatives that were tried.
"""

import statistics
import tempfile
from pathlib import Path
from typing import Any, List, NamedTuple, Sequence

import numpy as np

from ...errors import DeviceError
from ...graph.shapes import ConvolutionShape
from ..inside import driver
from ..referee import inputs, memory
from ..referee.memory import place
from ..referee.session import Session
from ..referee.tensors import NO_LAG, Lag
from ..sandbox import Box, Broken, Limits
from . import known

_SHAPE = ConvolutionShape(5000, 1, 28, 28, 50, 5)
_CALLS, _WARM = 15, 3
# Number of floats to process between two brackets. A referee checks outputs with all cores between brackets, which
# leaves the caches cold. The lag must include this effect.
_SWEPT = 64 << 20
_LIMITS = Limits(seconds=30.0, memory=4 << 30, disk=64 << 20, printed=1 << 16)


def measured(gpu: Any, machine: Any, kernel: Any = known) -> Lag:
    """Measure the lag of a device; return `NO_LAG` without a compiler.

    Parameters
    ----------
    gpu
        A `Gpu`.
    machine
        A `referee.Machine`, whose sandbox is used.
    kernel
        A module like `known`: its `built` builds the kernel as a submission, and its `queue` calls it in this process.

    Raises
    ------
    DeviceError
        When the worker fails.
    """
    with tempfile.TemporaryDirectory(prefix="fashion-infer.") as folder:
        plugin = kernel.built(Path(folder))
        if plugin is None:
            return NO_LAG
        tensors = gpu.tensors([place(_SHAPE)])
        # Without a lag, the session reports the measured seconds unchanged.
        tensors.lag = Lag(0.0, float("inf"))
        try:
            box = gpu.shown(Box(_LIMITS, read=(str(plugin.path), *plugin.read)))
            with Session(box, machine.layers, tensors.shared, machine.unsandboxed) as session:
                session.load(plugin, True, tensors.shared.device)
                seen = _brackets(session, tensors, kernel)[_WARM:]
        except Broken as error:
            raise DeviceError(f"a kernel of ours does not run in the sandbox: {error}") from None
        finally:
            tensors.close()
    turn = max(NO_LAG.turn, 1.5 * statistics.quantiles((bracket.turn for bracket in seen), n=10)[-1])
    return Lag(beside(seen), turn)


class Bracket(NamedTuple):
    """One bracket, in seconds."""

    taken: float  # from the referee's message to the worker's reply
    alone: float  # the same calls in the referee's process, by the device's events
    turn: float  # until the device answered the referee after the bracket


def beside(brackets: Sequence[Bracket]) -> float:
    """Return the seconds that a bracket takes in addition to its calls, at least 0."""
    taken, alone = (statistics.median(values) for values in zip(*(bracket[:2] for bracket in brackets)))
    return max(0.0, taken - alone)


def _brackets(session: Session, tensors: Any, kernel: Any) -> List[Bracket]:
    bracket, stream = tensors.bracket(True), inputs.SecretStream(b"")
    session.case(_SHAPE, [slot.prepare(_SHAPE, stream) for slot in bracket], tensors.on_device)
    given = inputs.fresh(stream, _SHAPE, True)
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
        queue(bracket[:1])  # the timed work is not the device's first
        seen.append(Bracket(taken, driver.timed(lambda: queue(bracket)), turn))
    return seen
