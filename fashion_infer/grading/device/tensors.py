"""The tensors of calls, in device memory that the referee owns and a worker maps.

The referee writes and reads through its own context, which a submission cannot patch. Until the call, inputs are in
memory that the worker cannot see.
"""

import ctypes
import os
import time
from typing import List, Optional, Sequence, Tuple

import numpy as np

from ...graph.layers import ConvolutionShape
from ...judging.inputs import Inputs, KeyedStream
from ...judging.tensors import STALE
from ..inside import driver
from ..referee.memory import Memory, Place, guard_words, place, stray
from ..referee.tensors import NO_LAG, Lag, Shared

# Number of calls between two readings of the clock. The lag of such a bracket is measured and subtracted (lag.py), but
# it differs a little from kernel to kernel. With ten calls, the error of a call's time is a tenth of that difference.
_BRACKET = 10
_EMPTY_FILLS = 5  # number of fills of one float; the shortest time is subtracted from a fill's time, as overhead
_SHARE = 0.25  # largest share of the free device memory that the tensors of a bracket may take


class DeviceTensors:
    """Tensors in device memory, for one call or for the calls of a bracket. `places` are the layouts of all later
    calls, and `scratch` is the address of memory of twice the L2 cache's size."""

    on_device = True
    # Smallest possible time of a kernel, as a fraction of the time in which the driver fills the output. It is below 1,
    # because plain stores are 3% faster than the driver's fill.
    floor = 0.85
    latency = 0.02  # seconds that the worker may take to react; few, because it is awake before it is called

    def __init__(self, device: int, places: Sequence[Place], scratch: int, lag: Lag = NO_LAG):
        largest = max(lie.end for lie in places)
        inputs = max(lie.y for lie in places)  # data and weights lie before the output
        count = max(1, min(_BRACKET, int(_SHARE * free_memory()) // (largest + inputs)))
        self._block = driver.Block(device, count * largest)
        self._staged = ctypes.c_ulonglong()
        driver.call("cuMemAlloc_v2", ctypes.byref(self._staged), ctypes.c_size_t(count * inputs))
        self._scratch, self._flushed = scratch, 2 * driver.l2_bytes(device)
        self._pinned = ctypes.c_void_p()
        driver.call("cuMemAllocHost_v2", ctypes.byref(self._pinned), ctypes.c_size_t(largest))
        host = np.ctypeslib.as_array((ctypes.c_ubyte * largest).from_address(self._pinned.value or 0))
        self.lag, self.turn = lag, 0.0
        self._small = Memory(1 << 16)  # a worker always maps some host memory
        told = {"size": self._block.size, "descriptor": self._block.descriptor}
        self.shared = Shared(self._small, (self._block.descriptor,), told)
        address, staged = self._block.address, self._staged.value
        fill_overhead = min(filled(address, 0, 1) for _ in range(_EMPTY_FILLS))
        starts = [(number * largest, staged + number * inputs) for number in range(count)]
        self.slots = [_Slot(address, start, waiting, host, fill_overhead) for start, waiting in starts]

    def clear(self) -> None:
        self._small.clear()
        _set(self._block.address, 0, self._block.size // 4)
        driver.synchronize()

    def bracket(self, timed: bool) -> List["_Slot"]:
        """Return the slots of the calls between two readings of the clock: all if the calls are timed, else one."""
        return self.slots if timed else self.slots[:1]

    def show(self, bracket: List["_Slot"]) -> None:
        self.turn = 0.0
        for slot in bracket:
            slot.show()
        driver.call("cuCtxResetPersistingL2Cache")
        _set(self._scratch, 0, self._flushed // 4)
        driver.synchronize()

    def settled(self) -> float:
        """Return the seconds for which the device was still busy after the worker's message. The result is 0 if the
        device answers within the usual time, `lag.turn`, which includes a switch of contexts."""
        start = time.perf_counter()
        _set(self._scratch, 0, 1)
        driver.synchronize()
        turn = time.perf_counter() - start
        self.turn = max(self.turn, turn)  # of the last bracket
        return turn if turn > self.lag.turn else 0.0

    def close(self) -> None:
        self.slots = []
        os.close(self._block.descriptor)
        self._block.close()
        driver.call("cuMemFree_v2", self._staged)
        driver.call("cuMemFreeHost", self._pinned)
        self._small.close()


class _Slot:
    """The tensors of one call: those at the offset `start` of the shared memory, and the staged inputs for it.
    `waiting` is the address of the staged inputs, `host` is pinned memory, and `fill_overhead` is in seconds."""

    def __init__(self, shared: int, start: int, waiting: int, host: np.ndarray, fill_overhead: float):
        self._shared, self._start, self._host, self._overhead = shared, start, host, fill_overhead
        self._waits = waiting - start  # distance from an address in the shared memory to its staged inputs
        self._guards: List[Tuple[int, np.ndarray]] = []
        # The output, after `take` has fetched it. Fetching another slot's output overwrites it.
        self.y: Optional[np.ndarray] = None

    def fits(self, shape: ConvolutionShape) -> bool:
        return place(shape).end <= self._host.size

    def prepare(self, shape: ConvolutionShape, stream: KeyedStream, guard: str = "nan") -> Place:
        self._lies, self._shape = place(shape, self._start), shape
        self._guards = [(zone[0], guard_words(stream, zone, guard)) for zone in self._lies.guards]
        for start, words in self._guards:
            driver.copy("HtoD", self._shared + start, words.ctypes.data, words.nbytes)
        return self._lies

    def fill(self, given: Inputs, value: float) -> float:
        """Stage the next call's inputs, and fill the output; return the seconds that the device took for the fill."""
        for at, tensor in ((self._lies.x, given.x), (self._lies.k, given.k)):
            driver.copy("HtoD", self._waits + at, tensor.ctypes.data, tensor.nbytes)
        return self.refill(value)

    def refill(self, value: float) -> float:
        driver.synchronize()
        bits = int(np.float32(value).view(np.uint32))
        return max(0.0, filled(self._shared + self._lies.y, bits, int(np.prod(self._shape.output))) - self._overhead)

    @property
    def addresses(self) -> Tuple[int, int, int]:
        x, k, y = self._lies[:3]
        return self._shared + x, self._shared + k, self._shared + y

    def show(self) -> None:
        for at, size in ((self._lies.x, self._shape.data), (self._lies.k, self._shape.weights)):
            driver.copy("DtoD", self._shared + at, self._waits + at, 4 * int(np.prod(size)))

    def spoil(self) -> None:
        for at, size in ((self._lies.x, self._shape.data), (self._lies.k, self._shape.weights)):
            _set(self._shared + at, STALE, int(np.prod(size)))

    def take(self) -> None:
        self.y = self._down(self._lies.y, self._shape.output)

    def same_inputs(self, given: Inputs) -> bool:
        return all(
            np.array_equal(self._down(at, tensor.shape), tensor)
            for at, tensor in ((self._lies.x, given.x), (self._lies.k, given.k))
        )

    def stray(self) -> str:
        return stray([bool((self._down(at, words.shape).view("u4") != words).any()) for at, words in self._guards])

    def digest(self) -> int:
        assert self.y is not None
        return int(self.y.reshape(-1).view(np.uint32).sum(dtype=np.uint64))

    def _down(self, at: int, size: Tuple[int, ...]) -> np.ndarray:
        """Copy a tensor of the shared memory to the same offset of the pinned memory, and return it."""
        count = 4 * int(np.prod(size))
        target = self._host[at - self._start : at - self._start + count]
        driver.copy("DtoH", target.ctypes.data, self._shared + at, count)
        return target.view(np.float32).reshape(size)


def free_memory() -> int:
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    driver.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
    return free.value


def filled(address: int, bits: int, count: int) -> float:
    """Return the seconds that filling device memory takes, with the launch and the wait."""
    start = time.perf_counter()
    _set(address, bits, count)
    driver.synchronize()
    return time.perf_counter() - start


def _set(address: int, bits: int, count: int) -> None:
    driver.call("cuMemsetD32_v2", ctypes.c_ulonglong(address), ctypes.c_uint(bits), ctypes.c_size_t(count))
