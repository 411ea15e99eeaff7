"""The tensors of calls, in host memory that the worker shares. Those in GPU memory are in `device.tensors`."""

import time
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import numpy as np

from ...graph.layers import ConvolutionShape
from ...judging.inputs import Inputs, KeyedStream
from ...judging.tensors import STALE, same_bits
from . import memory
from .memory import Memory, Place, place


class Shared(NamedTuple):
    host: Memory
    descriptors: Tuple[int, ...]  # descriptors that the worker inherits in addition to that of the host memory
    device: Optional[Dict[str, Any]]  # arguments of `inside.driver.Device`; None on the CPU


class Lag(NamedTuple):
    """The overhead in the measured time of a call or of several calls, in seconds: the part that is not their work."""

    word: float  # from the referee's message to the worker's reply, without the calls
    turn: float  # until the device answers the referee after the reply; a longer time is work of the submission


NO_LAG = Lag(0.0, 100e-6)  # used if the lag was not measured


class HostTensors:
    """Tensors in host memory of a size in bytes: the largest `Place.end` of all later calls. `gpu` says that the worker
    uses a GPU, with a format that copies the tensors itself."""

    on_device = False
    lag = NO_LAG
    # Smallest possible time of a kernel, as a fraction of the time in which this process fills the output.
    floor = 0.5
    # Seconds that a worker on a busy machine may take to wake up. The worker's own clock does not include them.
    latency = 0.25

    def __init__(self, largest: int, gpu: bool = False):
        self._memory = Memory(largest)
        self.shared = Shared(self._memory, (), {"size": 0, "descriptor": -1} if gpu else None)
        # Two places, between which calls of half the memory's size can move.
        self.slots = [HostSlot(self._memory, start) for start in (0, memory.page(largest // 2))]

    def clear(self) -> None:
        self._memory.clear()

    def bracket(self, timed: bool) -> List["HostSlot"]:
        return self.slots[:1]

    def show(self, bracket: List["HostSlot"]) -> None:
        """Do nothing: the inputs are already in shared memory, and the worker is stopped."""

    def settled(self) -> float:
        """Return the seconds for which work continued after the worker's message: 0, as the worker is stopped."""
        return 0.0

    def close(self) -> None:
        self.slots = []
        self._memory.close()


class HostSlot:
    def __init__(self, shared: Memory, start: int):
        self._memory, self._start = shared, start
        self._guards: List[Tuple[np.ndarray, np.ndarray]] = []
        self._x = self._k = self.y = np.empty(0, np.float32)

    def fits(self, shape: ConvolutionShape) -> bool:
        return place(shape, self._start).end <= self._memory.size

    def prepare(self, shape: ConvolutionShape, stream: KeyedStream, guard: str = "nan") -> Place:
        lies = place(shape, self._start)
        zones = [self._memory.zone(zone).view("u4") for zone in lies.guards]
        self._guards = list(zip(zones, [memory.guard_words(stream, zone, guard) for zone in lies.guards]))
        for zone, words in self._guards:
            zone[:] = words
        self._x, self._k, self.y = (
            self._memory.tensor(at, size) for at, size in zip(lies[:3], (shape.data, shape.weights, shape.output))
        )
        return lies

    def fill(self, given: Inputs, value: float) -> float:
        self._x[...], self._k[...] = given
        return self.refill(value)

    def refill(self, value: float) -> float:
        start = time.perf_counter()
        memory.fill(self.y, value)
        return time.perf_counter() - start

    def spoil(self) -> None:
        """Overwrite data and weights with NaN, which a pointer that a submission keeps then reads."""
        for tensor in (self._x, self._k):
            tensor.view("u4")[...] = STALE

    def take(self) -> None:
        """Do nothing: `y` is already the output."""

    def same_inputs(self, given: Inputs) -> bool:
        return same_bits(self._x, given.x) and same_bits(self._k, given.k)

    def stray(self) -> str:
        return memory.stray([bool((zone != words).any()) for zone, words in self._guards])

    def digest(self) -> int:
        return sum(memory.in_pieces(self.y.reshape(-1).view("u4"), lambda piece: int(piece.sum(dtype="u8"))))
