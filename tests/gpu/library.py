"""The operator library through ctypes alone: runs where neither MXNet nor the package's dependencies are."""

import ctypes
import functools
import os
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
OK, INVALID, UNKNOWN_KERNEL, UNSUPPORTED, NO_DEVICE, OUT_OF_MEMORY, DEVICE_ERROR = range(7)
CUDA = 1

# name: C, H, W, M, K
COURSE_LAYERS = {
    "fa2017": (1, 28, 28, 50, 5),
    "sp2018-conv1": (1, 64, 64, 6, 5),
    "sp2018-conv2": (6, 30, 30, 16, 5),
    "fa2019-conv1": (1, 70, 70, 12, 5),
    "fa2019-conv2": (12, 33, 33, 24, 5),
}
# Largest error over the output's largest magnitude.
TOLERANCE = {"float32": 5e-6, "tf32": 2e-3, "float16": 2e-3}


class Conv(ctypes.Structure):
    """fops_conv."""

    _fields_ = [(name, ctypes.c_int64) for name in "BCHWMK"] + [("x_type", ctypes.c_int)]


class KernelInfo(ctypes.Structure):
    """fops_kernel_info."""

    _fields_ = [(name, ctypes.c_char_p) for name in ("name", "summary", "requires", "precision")]


class OpRecord(ctypes.Structure):
    """fops_op_record."""

    _fields_ = [("layer", ctypes.c_char * 64), ("kernel", ctypes.c_char * 32), ("conv", Conv)] + [
        (name, ctypes.c_double) for name in ("seconds", "upload", "download")
    ]


@functools.lru_cache(maxsize=None)
def load():
    """The library that FASHION_OPS_LIBRARY names, else the package's."""
    path = os.environ.get("FASHION_OPS_LIBRARY", ROOT / "fashion_infer" / "lib" / "libfashion_ops.so")
    lib = ctypes.CDLL(str(path))
    string, pointer, conv = ctypes.c_char_p, ctypes.c_void_p, ctypes.POINTER(Conv)
    lib.fops_last_error.restype = string
    lib.fops_kernel_describe.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.POINTER(KernelInfo)]
    lib.fops_conv_check.argtypes = [ctypes.c_int, string, conv, ctypes.POINTER(string)]
    lib.fops_conv_forward_cuda.argtypes = [string, conv, pointer, pointer, pointer, pointer]
    lib.fops_conv_forward_timed.argtypes = [string, conv, pointer, pointer, pointer, pointer, string]
    lib.fops_log_drain.argtypes = [ctypes.POINTER(OpRecord), ctypes.c_int]
    lib.fops_conv_forward_staged.argtypes = [string, ctypes.c_int, conv, pointer, pointer, pointer, string]
    return lib


def device_count():
    """CUDA devices that the library can use; 0 where it cannot be loaded."""
    count = ctypes.c_int()
    try:
        load().fops_cuda_device_count(ctypes.byref(count))
    except OSError:
        return 0
    return count.value


def kernels():
    """Name and precision of every CUDA variant."""
    found = []
    try:
        lib = load()
    except OSError:
        return found
    for index in range(lib.fops_kernel_count(CUDA)):
        info = KernelInfo()
        assert lib.fops_kernel_describe(CUDA, index, ctypes.byref(info)) == OK
        found.append((info.name.decode(), info.precision.decode()))
    return found


def conv_of(x, k):
    """The fops_conv of two arrays or tensors."""
    B, C, H, W = x.shape
    return Conv(B, C, H, W, k.shape[0], k.shape[2], 1 if "uint8" in str(x.dtype) else 0)


def takes(name, conv):
    """Whether the variant takes this convolution."""
    return load().fops_conv_check(CUDA, name.encode(), ctypes.byref(conv), None) == OK


def message():
    """The calling thread's last failure."""
    return load().fops_last_error().decode()


def staged(name, x, k, device=0):
    """One pass over NumPy arrays; returns status and output (poisoned with NaN before the pass)."""
    conv = conv_of(x, k)
    y = np.full((conv.B, conv.M, conv.H - conv.K + 1, conv.W - conv.K + 1), np.nan, np.float32)
    status = load().fops_conv_forward_staged(
        name.encode(), device, ctypes.byref(conv), x.ctypes.data, k.ctypes.data, y.ctypes.data, None
    )
    return status, y


def drain_log():
    """The op-time log, emptied."""
    lib = load()
    records = (OpRecord * max(1, lib.fops_log_size()))()
    return records[: lib.fops_log_drain(records, len(records))]


class Memory:
    """Device memory through the driver's C API (libcuda), for programs without PyTorch or CuPy."""

    def __init__(self, array):
        self.array, self.pointer = array, ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(self.pointer), ctypes.c_size_t(array.nbytes))
        host = ctypes.c_void_p(array.ctypes.data)
        self._call("cuMemcpyHtoD_v2", self.pointer, host, ctypes.c_size_t(array.nbytes))

    @staticmethod
    @functools.lru_cache(maxsize=None)
    def driver():
        """libcuda, with the primary context of device 0 current."""
        cuda = ctypes.CDLL("libcuda.so.1")
        context = ctypes.c_void_p()
        assert cuda.cuInit(0) == 0
        assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
        assert cuda.cuCtxSetCurrent(context) == 0
        return cuda

    def _call(self, name, *arguments):
        status = getattr(self.driver(), name)(*arguments)
        assert status == 0, f"{name}: CUDA error {status}"

    def get(self):
        """Wait for the device, copy the memory back and free it."""
        host = ctypes.c_void_p(self.array.ctypes.data)
        self._call("cuMemcpyDtoH_v2", host, self.pointer, ctypes.c_size_t(self.array.nbytes))
        self._call("cuMemFree_v2", self.pointer)
        return self.array


def on_device(name, x, k):
    """One pass over device tensors; returns status and output (poisoned with NaN before the pass)."""
    conv = conv_of(x, k)
    y = np.full((conv.B, conv.M, conv.H - conv.K + 1, conv.W - conv.K + 1), np.nan, np.float32)
    a, b, c = Memory(x), Memory(k), Memory(y)
    status = load().fops_conv_forward_cuda(
        name.encode(), ctypes.byref(conv), a.pointer.value, b.pointer.value, c.pointer.value, None
    )
    y = c.get()
    a.get(), b.get()
    return status, y


def reference(x, k):
    """The convolution in float64."""
    side = k.shape[2]
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), (side, side), axis=(2, 3))
    return np.einsum("bchwpq,mcpq->bmhw", windows, k.astype(np.float64), optimize=True)


def error(y, want):
    """Largest error over the largest magnitude; infinite where y holds NaN."""
    worst = np.abs(y.astype(np.float64) - want)
    return float(np.where(np.isnan(worst), np.inf, worst).max() / np.abs(want).max())
