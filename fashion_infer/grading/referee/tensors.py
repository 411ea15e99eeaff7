"""The tensors of one call, where the worker sees them: in shared host memory. `device.tensors` has those on a GPU."""

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
    descriptors: Tuple[int, ...]  # beside the host memory's
    device: Optional[Dict[str, Any]]  # arguments of `inside.device.Device`; None on the CPU


class Lag(NamedTuple):
    """Overhead of a call besides the submission's work, in seconds."""

    word: float  # from the referee's word to the worker's, of a call that does nothing
    turn: float  # until the device answers the referee behind it; what takes longer is work of the submission


NO_LAG = Lag(0.0, 100e-6)  # where nothing was measured


class HostTensors:
    """Tensors in host memory.

    Parameters
    ----------
    largest
        Bytes: the largest `Place.end` of the calls to come.
    gpu
        Whether the worker uses a GPU: its format copies by itself.
    """

    on_device = False
    lag = NO_LAG
    # Share of the time to write as many bytes here: no kernel writes its output faster.
    floor = 0.5
    # Seconds that a worker on a busy machine may take to wake up: its own clock does not see them.
    latency = 0.25

    def __init__(self, largest: int, gpu: bool = False):
        self._memory = Memory(largest)
        self.shared = Shared(self._memory, (), {"size": 0, "descriptor": -1} if gpu else None)
        self._guards: List[Tuple[np.ndarray, bytes]] = []

    def clear(self) -> None:
        """Leave nothing that an earlier process of the submission wrote."""
        self._memory.clear()

    def prepare(self, shape: ConvolutionShape, stream: SecretStream) -> Place:
        """Make room for calls of a shape, with fresh guard zones."""
        lies = place(shape)
        self._guards = [(self._memory.zone(guard), stream.take(guard[1] - guard[0])) for guard in lies.guards]
        for zone, data in self._guards:
            zone[:] = np.frombuffer(data, np.uint8)
        self._x, self._k, self.y = (
            self._memory.tensor(at, size) for at, size in zip(lies[:3], (shape.data, shape.weights, shape.output))
        )
        return lies

    def fill(self, given: Inputs, value: float) -> float:
        """Make the next call's inputs ready, and the output full of a value: the seconds that the latter took."""
        self._x[...], self._k[...] = given.x, given.k
        return self.refill(value)

    def refill(self, value: float) -> float:
        """Fill the output alone: the seconds that it took."""
        start = time.perf_counter()
        memory.fill(self.y, value)
        return time.perf_counter() - start

    def bracket(self, timed: bool) -> List["HostTensors"]:
        """Calls between two readings of the clock: here a single one."""
        return [self]

    def show(self, bracket: List["HostTensors"]) -> None:
        """Show the inputs: here they lie before a worker that is stopped."""

    def settled(self) -> float:
        """Seconds until what the worker left running was done: on the CPU it is stopped."""
        return 0.0

    def take(self) -> None:
        """Fetch the output to `y`."""

    def same_inputs(self, given: Inputs) -> bool:
        """Whether data and weights are what they were."""
        return _same(self._x, given.x) and _same(self._k, given.k)

    def same_guards(self) -> bool:
        """Whether nothing was written between the tensors."""
        return all(bytes(zone) == data for zone, data in self._guards)

    def digest(self) -> int:
        """A number that changes with any element of the output."""
        return sum(memory.in_pieces(self.y.reshape(-1).view("u4"), lambda piece: int(piece.sum(dtype="u8"))))

    def close(self) -> None:
        """Give the memory back."""
        self._guards = []
        self._x = self._k = self.y = np.empty(0, np.float32)
        self._memory.close()


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    return bool((a.reshape(-1).view("u4") == b.reshape(-1).view("u4")).all())
