"""The tensors of one call, in host memory that the worker shares. Those in GPU memory are in `device.tensors`."""

import time
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import numpy as np

from ...graph.shapes import ConvolutionShape
from . import memory
from .inputs import Inputs, SecretStream
from .memory import Memory, Place, place


class Shared(NamedTuple):
    """Description of the shared memory, for the worker."""

    host: Memory
    descriptors: Tuple[int, ...]  # descriptors that the worker inherits in addition to that of the host memory
    device: Optional[Dict[str, Any]]  # arguments of `inside.device.Device`; None on the CPU


class Lag(NamedTuple):
    """The overhead in the measured time of a call or of several calls, in seconds: the part that is not their work."""

    word: float  # from the referee's message to the worker's reply, without the calls
    turn: float  # until the device answers the referee after the reply; a longer time is work of the submission


NO_LAG = Lag(0.0, 100e-6)  # used if the lag was not measured


class HostTensors:
    """Tensors in host memory.

    Parameters
    ----------
    largest
        Size in bytes: the largest `Place.end` of all later calls.
    gpu
        Whether the worker uses a GPU, with a format that copies the tensors itself.
    """

    on_device = False
    lag = NO_LAG
    # Smallest possible time of a kernel, as a fraction of the time in which this process fills the output.
    floor = 0.5
    # Seconds that a worker on a busy machine may take to wake up. The worker's own clock does not include them.
    latency = 0.25

    def __init__(self, largest: int, gpu: bool = False):
        self._memory = Memory(largest)
        self.shared = Shared(self._memory, (), {"size": 0, "descriptor": -1} if gpu else None)
        self._guards: List[Tuple[np.ndarray, bytes]] = []

    def clear(self) -> None:
        """Erase everything that an earlier process of the submission has written."""
        self._memory.clear()

    def prepare(self, shape: ConvolutionShape, stream: SecretStream) -> Place:
        """Prepare the tensors for calls of a shape, with fresh guard zones; return their layout."""
        lies = place(shape)
        self._guards = [(self._memory.zone(guard), stream.take(guard[1] - guard[0])) for guard in lies.guards]
        for zone, data in self._guards:
            zone[:] = np.frombuffer(data, np.uint8)
        self._x, self._k, self.y = (
            self._memory.tensor(at, size) for at, size in zip(lies[:3], (shape.data, shape.weights, shape.output))
        )
        return lies

    def fill(self, given: Inputs, value: float) -> float:
        """Write the next call's inputs, and fill the output with a value; return the seconds that the fill took."""
        self._x[...], self._k[...] = given.x, given.k
        return self.refill(value)

    def refill(self, value: float) -> float:
        """Fill only the output; return the seconds that it took."""
        start = time.perf_counter()
        memory.fill(self.y, value)
        return time.perf_counter() - start

    def bracket(self, timed: bool) -> List["HostTensors"]:
        """Return the slots of the calls between two readings of the clock. On a CPU, there is one call."""
        return [self]

    def show(self, bracket: List["HostTensors"]) -> None:
        """Do nothing: the inputs are already in shared memory, and the worker is stopped."""

    def settled(self) -> float:
        """Return the seconds for which work continued after the worker's message: 0, as the worker is stopped."""
        return 0.0

    def take(self) -> None:
        """Do nothing: `y` is already the output."""

    def same_inputs(self, given: Inputs) -> bool:
        """Return whether data and weights still have the values that were given."""
        return _same(self._x, given.x) and _same(self._k, given.k)

    def same_guards(self) -> bool:
        """Return whether the guard zones between the tensors are unchanged."""
        return all(bytes(zone) == data for zone, data in self._guards)

    def digest(self) -> int:
        """Return a number that changes if an element of the output changes."""
        return sum(memory.in_pieces(self.y.reshape(-1).view("u4"), lambda piece: int(piece.sum(dtype="u8"))))

    def close(self) -> None:
        """Free the memory."""
        self._guards = []
        self._x = self._k = self.y = np.empty(0, np.float32)
        self._memory.close()


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    return bool((a.reshape(-1).view("u4") == b.reshape(-1).view("u4")).all())
