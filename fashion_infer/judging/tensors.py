"""The tensors of judged calls: data, weights and output, with guard zones around each.

    | guard | data | guard | weights | guard | output | after |

The zones and the output hold NaN with different payloads, so that `origins` tells where an output's NaN comes from, if
it was only copied. They can hold numbers instead, since arithmetic on a GPU returns one NaN for all.
"""

import ctypes
import functools
import mmap
from typing import Dict, List, Sequence, Tuple

import numpy as np

from ..errors import CheckFailed, DeviceError
from ..graph.layers import ConvolutionShape
from .inputs import Inputs

# Bits of the NaN by origin. They are quiet, because arithmetic changes a signalling one. The library fills outputs with
# NEVER. The zone after the output has other bits than the other zones, because a kernel may copy a zone's NaN there.
NEVER, GUARD, AFTER, STALE = 0x7FC00000, 0xFFFFFFFF, 0xFFD5A5A5, 0xFFCCCCCC
_ORIGINS = {"never": NEVER, "guard": GUARD, "after": AFTER, "stale": STALE}
NEVER_NUMBER, _GUARD_NUMBER, _AFTER_NUMBER = np.float32(1000), np.float32(2000), np.float32(3000)
_ZONE = 1 << 16  # bytes: more than a row of the largest layer
_ALIGNED = 256  # bytes, as cudaMalloc aligns
_PAGED = 64  # bytes: alignment of a tensor before a protected page; kernels may rely on that of MXNet's memory
_PROT_NONE = 0


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two float32 tensors are equal bit for bit: NaN equals itself, and zero differs from negative zero."""
    # Image by image, because a mask of all values would be new memory, which takes longer than the comparison.
    return a.shape == b.shape and all((one.view("u4") == other.view("u4")).all() for one, other in zip(a, b))


def origins(output: np.ndarray) -> Dict[str, int]:
    """Count the NaN of an output by origin: "never" (written), "guard", "after", "stale" and "computed"."""
    bits = output[np.isnan(output)].view("u4")
    found = {name: int(np.count_nonzero(bits == value)) for name, value in _ORIGINS.items()}
    return {**found, "computed": bits.size - sum(found.values())}


class GuardedTensors:
    """Tensors in one mapping of host memory, for calls of up to the sizes of a shape."""

    def __init__(self, largest: ConvolutionShape):
        self.memory = np.frombuffer(mmap.mmap(-1, _layout(largest)[-1]), np.uint8)
        self.x = self.k = self.y = np.empty(0, np.float32)
        self.places: Tuple[int, ...] = ()
        self._zones: List[Tuple[np.ndarray, int]] = []  # each zone, and the bits that it holds

    def hold(self, inputs: Inputs, output: np.float32, guard: str = "nan") -> None:
        """Write the inputs, fill the output with a value, and fill the zones with NaN or with numbers."""
        shape = inputs.shape
        self.places = _layout(shape)
        sizes = (shape.data, shape.weights, shape.output)
        self.x, self.k, self.y = (self._tensor(at, size) for at, size in zip(self.places, sizes))
        self.x[...], self.k[...], self.y[...] = inputs.x, inputs.k, output
        begins = [0, *(at + tensor.nbytes for at, tensor in zip(self.places, (self.x, self.k, self.y)))]
        self._zones = _filled((self.memory[begin:end].view("u4") for begin, end in zip(begins, self.places)), guard)

    def spoil(self) -> None:
        """Overwrite the data and the weights of the last call with NaN, which a pointer to them then reads."""
        for tensor in (self.x, self.k):
            tensor.view("u4")[...] = STALE

    def stray(self) -> str:
        """Return the code of a write to a zone; "" if none was changed."""
        touched = [bool((zone != bits).any()) for zone, bits in self._zones]
        if touched[3]:
            return "writes_after_end"
        if touched[2]:
            return "writes_before_start"
        return "writes_outside" if any(touched) else ""

    def changed(self, inputs: Inputs) -> bool:
        return not (same_bits(self.x, inputs.x) and same_bits(self.k, inputs.k))

    def ends(self) -> Tuple[int, ...]:
        """Return the addresses of protected pages after data, weights and output; () if there are none."""
        return ()

    def _tensor(self, at: int, size: Sequence[int]) -> np.ndarray:
        return self.memory[at : at + 4 * int(np.prod(size))].view(np.float32).reshape(size)


class PagedTensors(GuardedTensors):
    """Tensors that each end at a page on which every access faults.

    A tensor begins at a multiple of 64 bytes. If its size is no multiple of that, the rest before the page is a zone.
    """

    def __init__(self, largest: ConvolutionShape):
        self._maps = [_Paged(4 * int(np.prod(size))) for size in (largest.data, largest.weights, largest.output)]

    def hold(self, inputs: Inputs, output: np.float32, guard: str = "nan") -> None:
        shape = inputs.shape
        sizes = (shape.data, shape.weights, shape.output)
        held = [paged.tensor(size) for paged, size in zip(self._maps, sizes)]
        self.x, self.k, self.y = (tensor for tensor, _ in held)
        self.x[...], self.k[...], self.y[...] = inputs.x, inputs.k, output
        none = np.empty(0, "u4")
        self._zones = _filled((none, held[0][1], held[1][1], held[2][1]), guard)

    def ends(self) -> Tuple[int, ...]:
        return tuple(paged.end for paged in self._maps)


class _Paged:
    def __init__(self, size: int):
        room = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        self._map = mmap.mmap(-1, room + mmap.PAGESIZE)
        self._memory = np.frombuffer(self._map, np.uint8)
        self.end = self._memory.ctypes.data + room
        if ctypes.CDLL(None).mprotect(ctypes.c_void_p(self.end), ctypes.c_size_t(mmap.PAGESIZE), _PROT_NONE):
            raise CheckFailed("memory cannot be protected on this machine")
        self._room = room

    def tensor(self, size: Sequence[int]) -> Tuple[np.ndarray, np.ndarray]:
        """Return a tensor that ends at the page, and the words between the tensor and the page."""
        count = 4 * int(np.prod(size))
        begin = (self._room - count) // _PAGED * _PAGED
        words = self._memory[begin : self._room]
        return words[:count].view(np.float32).reshape(size), words[count:].view("u4")


class GuardedDeviceTensors(GuardedTensors):  # pragma: no cover (needs a CUDA device; tests/gpu runs it)
    """Tensors in a GPU's memory: a copy of the host's mapping, copied before each call and back after it.

    With `exact`, each tensor has an allocation of exactly its size, without zones on the device.
    """

    def __init__(self, largest: ConvolutionShape, device: int = 0, exact: bool = False):
        super().__init__(largest)
        self._cuda, self._exact = driver(device), exact
        self._whole = 0 if exact else self._allocated(len(self.memory))
        self._apart: List[int] = []

    def upload(self) -> Tuple[int, int, int]:
        """Copy the tensors to the device, and return their addresses there."""
        if not self._exact:
            self._copy("cuMemcpyHtoD_v2", self._whole, self.memory)
            return (self._whole + self.places[0], self._whole + self.places[1], self._whole + self.places[2])
        self._free_apart()
        for tensor in (self.x, self.k, self.y):
            self._apart.append(self._allocated(tensor.nbytes))
            self._copy("cuMemcpyHtoD_v2", self._apart[-1], tensor)
        return (self._apart[0], self._apart[1], self._apart[2])

    def download(self) -> None:
        self._checked("cuCtxSynchronize")
        if not self._exact:
            self._copy("cuMemcpyDtoH_v2", self._whole, self.memory)
            return
        for at, tensor in zip(self._apart, (self.x, self.k, self.y)):
            self._copy("cuMemcpyDtoH_v2", at, tensor)

    def spoil(self) -> None:
        super().spoil()
        if self._whole and self.places:
            self._copy("cuMemcpyHtoD_v2", self._whole, self.memory)

    def _copy(self, function: str, at: int, host: np.ndarray) -> None:
        pointer, place = ctypes.c_void_p(host.ctypes.data), ctypes.c_uint64(at)
        both = (pointer, place) if function == "cuMemcpyDtoH_v2" else (place, pointer)
        self._checked(function, *both, ctypes.c_size_t(host.nbytes))

    def _allocated(self, size: int) -> int:
        memory = ctypes.c_uint64()
        self._checked("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(size))
        return memory.value

    def _checked(self, function: str, *arguments) -> None:
        status = getattr(self._cuda, function)(*arguments)
        if status == 2:
            raise CheckFailed("the GPU has too little free memory to judge this shape")
        if status:
            raise DeviceError(f"CUDA error {status} in {function} after the kernel was called")

    def _free_apart(self) -> None:
        while self._apart:
            self._cuda.cuMemFree_v2(ctypes.c_uint64(self._apart.pop()))

    def __del__(self):
        if getattr(self, "_whole", 0):
            self._cuda.cuMemFree_v2(ctypes.c_uint64(self._whole))
        if getattr(self, "_apart", None):
            self._free_apart()


def _filled(zones, guard: str) -> List[Tuple[np.ndarray, int]]:
    """Fill the zones before data, weights and output and the one after the output; return each with its bits."""
    held = []
    for number, zone in enumerate(zones):
        value, bits = (_AFTER_NUMBER, AFTER) if number == 3 else (_GUARD_NUMBER, GUARD)
        bits = int(value.view("u4")) if guard == "number" else bits
        zone[...] = bits
        held.append((zone, bits))
    return held


def _layout(shape: ConvolutionShape) -> Tuple[int, int, int, int]:
    """Compute the offsets of data, weights and output, and the total size, in bytes."""
    at, places = 0, []
    for size in (shape.data, shape.weights, shape.output):
        places.append(-(-(at + _ZONE) // _ALIGNED) * _ALIGNED)
        at = places[-1] + 4 * int(np.prod(size))
    return (places[0], places[1], places[2], at + _ZONE)


@functools.lru_cache(maxsize=None)
def driver(device: int) -> ctypes.CDLL:  # pragma: no cover (needs a CUDA device)
    """Return CUDA's driver, after making a device's primary context current, which the operator library also uses."""
    cuda = ctypes.CDLL("libcuda.so.1")
    context = ctypes.c_void_p()
    handle = ctypes.c_int()
    status = cuda.cuInit(0) or cuda.cuDeviceGet(ctypes.byref(handle), device)
    status = status or cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), handle)
    status = status or cuda.cuCtxSetCurrent(context)
    if status:
        raise DeviceError(f"GPU {device} cannot be used: CUDA error {status}")
    return cuda
