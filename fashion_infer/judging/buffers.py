"""The tensors of judged calls: data, weights and output in one allocation, with guard zones around each.

    | guard | data | guard | weights | guard | output | guard |

Guard zones hold NaN: a kernel that reads outside a tensor computes NaN with that bit pattern, and a kernel that writes
there changes it. The zone after the output has other bits, because a kernel may write such a NaN there.
"""

import ctypes
import functools
import mmap
import time
from typing import List, NamedTuple, Tuple

import numpy as np

from ..errors import CheckFailed, DeviceError
from ..kernel_files.loading import LoadedKernel
from ..library import bindings, kernels, op_times
from ..library.op_times import OpTime

_GUARD = 1 << 16  # bytes: more than a row of the largest layer
_ALIGNED = 256  # bytes, as cudaMalloc aligns
_COPIED = 1 << 26  # bytes: size limit of an output that is copied when the kernel returns
_LATE = 5e-3  # seconds in which a thread that has not been joined writes some of the missing outputs
_BYTE, _LAST_BYTE = 0xFF, 0xA5  # content of the guard zones, and of the zone after the output
GUARD_BITS = 0xFFFFFFFF  # a NaN that neither arithmetic nor the library's poison produces

Size = Tuple[int, int, int, int, int, int]  # B, C, H, W, M, K


class JudgedCall(NamedTuple):
    """A call and its effects."""

    output: np.ndarray  # (B,M,H-K+1,W-K+1) float32; a large one is in the buffers, where the next call overwrites it
    record: OpTime
    stray: str  # code of a write outside the tensors or after the return, "" if none
    inputs_changed: bool
    examined: bool  # whether the adapter examined the call

    def kept(self) -> "JudgedCall":
        """Return the call with a copy of its output, which later calls leave unchanged."""
        return self._replace(output=self.output.copy())


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two float32 tensors are equal bit for bit: NaN equals itself, and zero differs from negative zero."""
    # Image by image, because a mask of all values would be new memory, which takes longer than the comparison.
    return a.shape == b.shape and all((one.view("u4") == other.view("u4")).all() for one, other in zip(a, b))


class HostBuffers:
    """Tensors in host memory.

    Parameters
    ----------
    kernel
        The kernel to call.
    size
        B, C, H, W, M, K of the largest call; other calls have fewer images.
    device
        Index of the GPU, for a kernel that copies data itself.
    """

    def __init__(self, kernel: LoadedKernel, size: Size, device: int = 0):
        self._kernel, self._device = kernel, device
        self._map = mmap.mmap(-1, _layout(size)[-1])
        self._bytes = np.frombuffer(self._map, np.uint8)

    def call(self, x: np.ndarray, weight: np.ndarray, examine: bool = True) -> JudgedCall:
        """Call the kernel on float32 inputs.

        Parameters
        ----------
        x, weight
            (B,C,H,W) and (M,C,K,K), float32.
        examine
            Let the adapter look for further findings, such as work outside Op Time, which takes several times as long.

        Raises
        ------
        DeviceError
            When the call fails.
        """
        B, C, H, W = x.shape
        size = B, C, H, W, weight.shape[0], weight.shape[2]
        places = _layout(size)
        used = self._bytes[: places[-1]]
        used[:] = _BYTE
        y_shape = (size[0], size[4], size[2] - size[5] + 1, size[3] - size[5] + 1)
        tensors = [self._tensor(at, shape) for at, shape in zip(places, (x.shape, weight.shape, y_shape))]
        tensors[0][...], tensors[1][...], tensors[2][...] = x, weight, np.nan
        used[places[2] + tensors[2].nbytes :] = _LAST_BYTE
        op_times.drain()
        bindings.load().fops_examine(examine)
        try:
            self._run(tensors, places)
        finally:
            bindings.load().fops_examine(0)
        # At once, because threads that a kernel has not joined may still write.
        at_return = tensors[2].copy() if tensors[2].nbytes <= _COPIED else tensors[2]
        same = all(map(same_bits, tensors, (x, weight)))
        stray = self._outside(tensors, places)
        if not stray and np.isnan(at_return.max()):
            time.sleep(_LATE)
        if not stray and not same_bits(at_return, tensors[2]):
            stray = "returns_early"
        return JudgedCall(at_return, op_times.drain()[-1], stray, not same, examine)

    def _run(self, tensors: List[np.ndarray], places: Tuple[int, ...]) -> None:
        x, weight, y = tensors
        kernels.prepare(x, weight, self._kernel.name, self._kernel.backend, self._device, node=0, out=y)()

    def _tensor(self, at: int, shape: Tuple[int, ...]) -> np.ndarray:
        return self._bytes[at : at + 4 * int(np.prod(shape))].view(np.float32).reshape(shape)

    def _outside(self, tensors: List[np.ndarray], places: Tuple[int, ...]) -> str:
        """Return the code of a write to a guard zone; "" if none was changed."""
        begins = [0, *(at + tensor.nbytes for at, tensor in zip(places, tensors))]
        zones = [self._bytes[begin:end] for begin, end in zip(begins, places)]
        held = (_BYTE, _BYTE, _BYTE, _LAST_BYTE)
        touched = [bool((zone != byte).any()) for zone, byte in zip(zones, held)]
        if touched[3]:
            return "writes_after_end"
        if touched[2]:
            return "writes_before_start"
        return "writes_outside" if any(touched) else ""


class DeviceBuffers(HostBuffers):  # pragma: no cover (needs a CUDA device; tests/gpu runs it)
    """Tensors in a GPU's memory: a copy of the host buffers, copied before each call and back after it."""

    def __init__(self, kernel: LoadedKernel, size: Size, device: int = 0):
        super().__init__(kernel, size, device)
        self._cuda = _driver(device)
        self._memory = ctypes.c_uint64()
        self._checked("cuMemAlloc_v2", ctypes.byref(self._memory), ctypes.c_size_t(len(self._bytes)))

    def _run(self, tensors: List[np.ndarray], places: Tuple[int, ...]) -> None:
        host, count = ctypes.c_void_p(self._bytes.ctypes.data), ctypes.c_size_t(len(self._bytes))
        self._checked("cuMemcpyHtoD_v2", self._memory, host, count)
        conv = kernels.describe(tensors[0].shape, tensors[1].shape)
        x, weight, y = (self._memory.value + place for place in places[:3])
        kernels.launch_timed(self._kernel.name, conv, x, weight, y, 0)
        self._checked("cuCtxSynchronize")
        self._checked("cuMemcpyDtoH_v2", host, self._memory, count)

    def _checked(self, function: str, *arguments) -> None:
        status = getattr(self._cuda, function)(*arguments)
        if status == 2:
            raise CheckFailed("the GPU has too little free memory to judge this shape")
        if status:
            raise DeviceError(f"CUDA error {status} in {function} after the kernel was called")

    def __del__(self):
        if self._memory.value:
            self._cuda.cuMemFree_v2(self._memory)


def allocate(kernel: LoadedKernel, size: Size, device: int = 0) -> HostBuffers:
    """Allocate buffers in the memory that a kernel needs, host or device."""
    on_device = kernel.backend == "gpu" and not kernel.host_memory
    return (DeviceBuffers if on_device else HostBuffers)(kernel, size, device)


def _layout(size: Size) -> Tuple[int, int, int, int]:
    """Compute the offsets of data, weights and output, and the total size, in bytes."""
    B, C, H, W, M, K = size
    at, places = 0, []
    for floats in (B * C * H * W, M * C * K * K, B * M * (H - K + 1) * (W - K + 1)):
        places.append(-(-(at + _GUARD) // _ALIGNED) * _ALIGNED)
        at = places[-1] + 4 * floats
    return (places[0], places[1], places[2], at + _GUARD)


@functools.lru_cache(maxsize=None)
def _driver(device: int) -> ctypes.CDLL:  # pragma: no cover (needs a CUDA device)
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
