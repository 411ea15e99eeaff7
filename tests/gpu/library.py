"""Convolutions of the operator library through its C API, which returns a status. Only NumPy is needed.

FASHION_OPS_LIBRARY names the library under test. Without the variable, the package's own library is tested.
"""

import ctypes
import functools
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [path for path in (str(ROOT), str(ROOT / "tests")) if path not in sys.path]

from reference import convolve as reference  # noqa: E402, F401

from fashion_infer.errors import FashionInferError  # noqa: E402
from fashion_infer.library import devices, op_times  # noqa: E402
from fashion_infer.library import kernels as library_kernels  # noqa: E402
from fashion_infer.library.bindings import (  # noqa: E402, F401
    BACKENDS,
    INVALID,
    NO_DEVICE,
    NOT_LOGGED,
    OK,
    OUT_OF_MEMORY,
    UNKNOWN_KERNEL,
    UNSUPPORTED,
    load,
    message,
)
from fashion_infer.library.plugin_abi import DEVICE_ERROR  # noqa: E402, F401

drain_log = op_times.drain
# Layer: C, H, W, M, K.
COURSE_LAYERS = {
    "fa2017": (1, 28, 28, 50, 5),
    "sp2018-conv1": (1, 64, 64, 6, 5),
    "sp2018-conv2": (6, 30, 30, 16, 5),
    "fa2018-conv1": (1, 72, 72, 12, 7),
    "fa2018-conv2": (12, 33, 33, 24, 7),
    "sp2019-conv1": (1, 48, 48, 6, 5),
    "sp2019-conv2": (6, 22, 22, 16, 5),
    "fa2019-conv1": (1, 70, 70, 12, 5),
    "fa2019-conv2": (12, 33, 33, 24, 5),
    "fa2020-conv1": (1, 86, 86, 4, 7),
    "fa2020-conv2": (4, 40, 40, 16, 7),
}
# Largest allowed error by precision, as a fraction of the output's largest magnitude.
TOLERANCE = {"float32": 5e-6, "tf32": 2e-3, "fp16": 2e-3}


class Memory:
    """A copy of a NumPy array in the memory of device 0, through libcuda, for programs without PyTorch or CuPy."""

    def __init__(self, array):
        self.array, self.pointer = array, ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(self.pointer), ctypes.c_size_t(array.nbytes))
        host = ctypes.c_void_p(array.ctypes.data)
        self._call("cuMemcpyHtoD_v2", self.pointer, host, ctypes.c_size_t(array.nbytes))

    @staticmethod
    @functools.lru_cache(maxsize=None)
    def driver():
        """Load libcuda, make the primary context of device 0 current, and return libcuda."""
        cuda = ctypes.CDLL("libcuda.so.1")
        context = ctypes.c_void_p()
        assert cuda.cuInit(0) == 0
        assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
        assert cuda.cuCtxSetCurrent(context) == 0
        return cuda

    def _call(self, name, *arguments):
        status = getattr(self.driver(), name)(*arguments)
        assert status == 0, f"{name}: CUDA error {status}"

    @property
    def address(self):
        """Return the address of the device memory, as an integer."""
        return self.pointer.value

    def get(self):
        """Wait for the device, copy the memory back and free it."""
        host = ctypes.c_void_p(self.array.ctypes.data)
        self._call("cuMemcpyDtoH_v2", host, self.pointer, ctypes.c_size_t(self.array.nbytes))
        self._call("cuMemFree_v2", self.pointer)
        return self.array


def device_count():
    """Return the number of CUDA devices that the library can use; 0 without a device or without a library."""
    try:
        return len(devices.cuda_devices())
    except FashionInferError:
        return 0


def kernels():
    """Return (name, precision) of every CUDA kernel; an empty list without a library or a device."""
    try:
        return [(kernel.name, kernel.precision) for kernel in library_kernels.table("gpu")]
    except FashionInferError:
        return []


def conv_of(x, k):
    """Return the fops_conv of an input x and weights k, which are arrays or tensors."""
    return library_kernels.describe(x.shape, k.shape, np.uint8 if "uint8" in str(x.dtype) else np.float32)


def takes(name, conv):
    """Return whether the kernel supports this convolution."""
    return load().fops_conv_check(BACKENDS["gpu"], name.encode(), conv, None) == OK


def nan_output(conv):
    """Return an array of NaN for the output of a convolution."""
    return np.full((conv.B, conv.M, conv.H - conv.K + 1, conv.W - conv.K + 1), np.nan, np.float32)


def staged(name, x, k, device=0):
    """Run one pass over NumPy arrays in host memory; return status and output, which is NaN before the pass."""
    conv = conv_of(x, k)
    y = nan_output(conv)
    pointers = x.ctypes.data, k.ctypes.data, y.ctypes.data
    return load().fops_conv_forward_staged(name.encode(), device, conv, *pointers, NOT_LOGGED), y


def on_device(name, x, k):
    """Copy NumPy arrays to the device and run one pass over them; return status and output.

    The output is filled with NaN before the pass.
    """
    conv = conv_of(x, k)
    a, b, c = Memory(x), Memory(k), Memory(nan_output(conv))
    status = load().fops_conv_forward_gpu(name.encode(), conv, a.address, b.address, c.address, None)
    y = c.get()
    a.get(), b.get()
    return status, y


def error(y, want):
    """Return the largest error as a fraction of the largest magnitude; infinity if y contains NaN."""
    worst = np.abs(y.astype(np.float64) - want)
    return float(np.where(np.isnan(worst), np.inf, worst).max() / np.abs(want).max())
