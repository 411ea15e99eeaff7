"""How long the way to a worker and back takes here, measured with a kernel of ours.

A call in a sandbox takes longer than its kernels: two words between processes, a launch by a processor that did other
work meanwhile, the device's turn from one context to another and back, and a device that begins cold. That is
paid once for all the calls of a bracket, and is no part of a submission's time.

The lag is what a bracket of a kernel of ours takes by the referee's clock, less what the same calls take in the
referee's own process by the device's events, one behind the other: `bench conv` times so. It is measured before any
submission is there, by a worker of the same kind in a box of the same kind: nothing that is graded has a say in it.
docs/notebook.md has what was tried.
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
# Between two brackets a referee looks at outputs with all cores, which leaves caches cold: a part of the lag.
_SWEPT = 64 << 20  # floats
_LIMITS = Limits(seconds=30.0, memory=4 << 30, disk=64 << 20, printed=1 << 16)


def measured(gpu: Any, machine: Any, kernel: Any = known) -> Lag:
    """The lag of a device; that of no measurement where no compiler is.

    Parameters
    ----------
    gpu
        A `Gpu`.
    machine
        A `referee.Machine`: its sandbox.
    kernel
        What `known` has: `built` makes a submission of it, `queue` runs it here.

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
        # Seconds are taken as they are.
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
    turn: float  # until the device answered the referee behind it


def beside(brackets: Sequence[Bracket]) -> float:
    """Seconds of a bracket beside its calls; never less than none."""
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
