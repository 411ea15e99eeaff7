"""The operator library, libfashion_ops.so: found and loaded once, into MXNet and through ctypes.

Tests and benchmarks call the kernels directly (`convolve`); the predictor only needs `load_into_mxnet` and the log.
The C API and its contracts are in custom_ops/include/fashion_ops.h.
"""

import ctypes
import functools
from pathlib import Path
from typing import List, NamedTuple, Optional, Set, Tuple

import numpy as np

from .. import _mxnet
from ..errors import DeviceError, UsageError
from ..resources import library_path

BACKENDS = {"cpu": 0, "gpu": 1}
# What --precision takes, and the library's own names: "float32" is float32 grade, the others are the GPU's alone.
PRECISIONS = {"float32": "float32", "tf32": "tf32", "fp16": "float16"}
_FLOAT32, _UINT8 = 0, 1
_INVALID, _UNKNOWN_KERNEL, _UNSUPPORTED = (
    1,
    2,
    3,
)  # statuses that are the caller's mistake; others are the device's
# What MXNet has loaded: it refuses to register a partitioner twice.
_in_mxnet: Set[Path] = set()


class _Conv(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in "BCHWMK"] + [("x_type", ctypes.c_int)]


class _KernelInfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_char_p) for name in ("name", "summary", "requires", "precision")]


class _OpRecord(ctypes.Structure):
    _fields_ = [
        ("layer", ctypes.c_char * 64),
        ("kernel", ctypes.c_char * 32),
        ("conv", _Conv),
        ("seconds", ctypes.c_double),
        ("upload", ctypes.c_double),
        ("download", ctypes.c_double),
    ]


class _DeviceInfo(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char * 256),
        ("major", ctypes.c_int),
        ("minor", ctypes.c_int),
        ("multiprocessors", ctypes.c_int),
        ("memory_total", ctypes.c_size_t),
        ("memory_free", ctypes.c_size_t),
        ("driver_version", ctypes.c_int),
        ("runtime_version", ctypes.c_int),
    ]


class Kernel(NamedTuple):
    """A line of the library's table of variants."""

    name: str
    summary: str
    requires: str  # the shapes it takes, in words; "" for all
    precision: str  # "float32" (float32 grade), "tf32" or "float16"


class OpTime(NamedTuple):
    """One forward pass of one layer, from the library's log. Times in seconds."""

    layer: str
    kernel: str
    shape: Tuple[int, int, int, int, int, int]  # B, C, H, W, M, K
    seconds: float  # the kernel alone
    upload: float  # host to device; 0 on the CPU
    download: float
    item_bytes: int = 4  # of the data: 1 where it was pixels

    @property
    def operations(self) -> int:
        """Floating-point operations: two for each multiply-add."""
        images, channels, height, width, filters, side = self.shape
        return 2 * images * filters * (height - side + 1) * (width - side + 1) * channels * side**2


class CudaDevice(NamedTuple):
    """A CUDA device as the library sees it. Memory in bytes."""

    index: int
    name: str
    capability: Tuple[int, int]
    multiprocessors: int
    memory_total: int
    memory_free: int
    driver_version: str
    runtime_version: str


@functools.lru_cache(maxsize=None)
def library() -> ctypes.CDLL:
    """The library, loaded through ctypes with its prototypes declared.

    Raises
    ------
    DeviceError
        When the file is missing, damaged or from another version of this package.
    """
    path = library_path()
    if not path.is_file():
        raise DeviceError(f"the operator library is missing ({path}): run `make setup`, or `pip install .` again")
    try:
        lib = ctypes.CDLL(str(path))
        _declare(lib)
    except (OSError, AttributeError) as error:
        raise DeviceError(
            f"the operator library {path} cannot be loaded ({_one_line(error)}): rebuild it with `make setup`"
        ) from None
    return lib


def _declare(lib: ctypes.CDLL) -> None:
    c_str, c_int, c_void = ctypes.c_char_p, ctypes.c_int, ctypes.c_void_p
    conv = ctypes.POINTER(_Conv)
    prototypes = {
        "fops_last_error": (c_str, []),
        "fops_build_info": (c_str, []),
        "fops_cpu_isa": (c_str, []),
        "fops_kernel_count": (c_int, [c_int]),
        "fops_kernel_describe": (c_int, [c_int, c_int, ctypes.POINTER(_KernelInfo)]),
        "fops_conv_check": (c_int, [c_int, c_str, conv, ctypes.POINTER(c_str)]),
        "fops_conv_forward_cpu": (c_int, [c_str, conv, c_void, c_void, c_void, c_str]),
        "fops_conv_forward_cuda": (c_int, [c_str, conv, c_void, c_void, c_void, c_void]),
        "fops_conv_forward_timed": (c_int, [c_str, conv, c_void, c_void, c_void, c_void, c_str]),
        "fops_conv_forward_staged": (c_int, [c_str, c_int, conv, c_void, c_void, c_void, c_str]),
        "fops_net_create": (c_int, [c_void, c_int, c_void, c_int, c_int, c_int, c_str, ctypes.POINTER(c_void)]),
        "fops_net_destroy": (None, [c_void]),
        "fops_net_input_count": (c_int, [c_void]),
        "fops_net_input_name": (c_str, [c_void, c_int]),
        "fops_net_input_size": (ctypes.c_int64, [c_void, c_int]),
        "fops_net_data": (c_int, [c_void]),
        "fops_net_stage_count": (c_int, [c_void]),
        "fops_net_stage": (c_int, [c_void, c_int, c_void]),
        "fops_net_set_weights": (c_int, [c_void, c_void, c_void]),
        "fops_net_forward": (c_int, [c_void, ctypes.c_int64, c_void, c_int, c_void, c_int]),
        "fops_net_forward_cuda": (c_int, [c_void, ctypes.c_int64, c_void, c_int, c_void, c_void]),
        "fops_log_size": (c_int, []),
        "fops_log_drain": (c_int, [ctypes.POINTER(_OpRecord), c_int]),
        "fops_set_threads": (c_int, [c_int]),
        "fops_get_threads": (c_int, []),
        "fops_cuda_device_count": (c_int, [ctypes.POINTER(c_int)]),
        "fops_cuda_device_info": (c_int, [c_int, ctypes.POINTER(_DeviceInfo)]),
    }
    for name, (result, arguments) in prototypes.items():
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())


def check(status: int) -> None:
    """Raise what a status of the library says: UsageError for the caller's mistakes, DeviceError for the rest."""
    if status:
        message = library().fops_last_error().decode()
        usage = status in (_INVALID, _UNKNOWN_KERNEL, _UNSUPPORTED)
        raise (UsageError if usage else DeviceError)(message)


@functools.lru_cache(maxsize=None)
def load_into_mxnet() -> None:
    """Register the library's operators with MXNet, once a process.

    Raises
    ------
    DeviceError
        When the library is missing or built for another MXNet.
    """
    library()
    mx = _mxnet.load()
    try:
        if library_path() not in _in_mxnet:
            mx.library.load(str(library_path()), verbose=False)
            _in_mxnet.add(library_path())
    except mx.MXNetError as error:
        raise DeviceError(
            f"MXNet refuses the operator library: {explain(error)}; rebuild it with `make setup`"
        ) from None


def explain(error: Exception) -> str:
    """The one line of an MXNetError that helps: the operator's own message when it left one, else MXNet's last line."""
    text = str(error)
    start = text.rfind("<<")
    if start >= 0 and ">>" in text[start:]:
        return " ".join(text[start + 2 : text.index(">>", start)].split())
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


def build_info() -> str:
    """Version, compiler, instruction sets and CUDA architectures of the library, in one line."""
    return library().fops_build_info().decode()


def cpu_isa() -> str:
    """The instruction set that the fast CPU kernels use here: "avx512", "avx2" or "generic"."""
    return library().fops_cpu_isa().decode()


def set_threads(threads: Optional[int]) -> None:
    """Size of the library's thread pool; None or 0 for the default, the cores this process may use."""
    check(library().fops_set_threads(threads or 0))


def threads() -> int:
    """Threads that the library's CPU kernels use."""
    return library().fops_get_threads()


def kernels(backend: str = "cpu") -> List[Kernel]:
    """The table of variants of a backend, "cpu" or "gpu"; empty for a GPU when the library has no CUDA part."""
    lib = library()
    found = []
    for index in range(lib.fops_kernel_count(BACKENDS[backend])):
        info = _KernelInfo()
        check(lib.fops_kernel_describe(BACKENDS[backend], index, ctypes.byref(info)))
        found.append(Kernel(*(getattr(info, field).decode() for field, _ in _KernelInfo._fields_)))
    return found


def check_kernel(kernel: str, backend: str) -> None:
    """Raise UsageError unless `kernel` is "auto" or a variant of that backend."""
    known = [k.name for k in kernels(backend)]
    if kernel != "auto" and kernel not in known:
        raise UsageError(f"unknown {backend} kernel '{kernel}'; known: {', '.join(['auto', *known])}")


def element_type(dtype) -> int:
    """The library's number of an element type: that of uint8, and for anything else that of float32."""
    return _UINT8 if np.dtype(dtype) == np.uint8 else _FLOAT32


def check_precision(precision: str) -> None:
    """Raise UsageError when there is no such precision."""
    if precision not in PRECISIONS:
        raise UsageError(f"unknown precision '{precision}'; known: {', '.join(PRECISIONS)}")


def describe(x_shape, k_shape, x_type: int = _FLOAT32) -> _Conv:
    """The C struct for data (B,C,H,W) and weights (M,C,K,K); UsageError when the shapes do not fit together."""
    if len(x_shape) != 4 or len(k_shape) != 4 or k_shape[1] != x_shape[1] or k_shape[2] != k_shape[3]:
        raise UsageError(f"data must be (B,C,H,W) and weights (M,C,K,K), not {tuple(x_shape)} and {tuple(k_shape)}")
    return _Conv(*x_shape, k_shape[0], k_shape[2], x_type)


def chosen_kernel(x_shape, k_shape, backend: str = "cpu", kernel: str = "auto", dtype=np.float32) -> str:
    """The variant that runs for these shapes; UsageError when `kernel` does not take them."""
    conv = describe(x_shape, k_shape, element_type(dtype))
    chosen = ctypes.c_char_p()
    check(library().fops_conv_check(BACKENDS[backend], kernel.encode(), ctypes.byref(conv), ctypes.byref(chosen)))
    return chosen.value.decode()


def convolve(
    x: np.ndarray,
    weight: np.ndarray,
    kernel: str = "auto",
    backend: str = "cpu",
    device: int = 0,
    layer: Optional[str] = None,
    out: Optional[np.ndarray] = None,
) -> np.ndarray:
    """One convolution by the library, outside MXNet.

    Parameters
    ----------
    x
        (B,C,H,W), float32 or uint8.
    weight
        (M,C,K,K), float32.
    kernel, backend, device
        The variant, "cpu" or "gpu" (tensors are staged to the device and back), and the GPU's index.
    layer
        Name under which the pass enters the op-time log; None keeps it out.
    out
        (B,M,H-K+1,W-K+1) float32, C-contiguous, to write into; made when None.

    Raises
    ------
    UsageError, DeviceError
        For shapes and kernels that do not fit, and for a device that fails.
    """
    x = np.ascontiguousarray(x)
    if x.dtype != np.uint8:
        x = np.ascontiguousarray(x, np.float32)
    weight = np.ascontiguousarray(weight, np.float32)
    conv = describe(x.shape, weight.shape, element_type(x.dtype))
    lib = library()
    check(lib.fops_conv_check(BACKENDS[backend], kernel.encode(), ctypes.byref(conv), None))
    shape = (conv.B, conv.M, conv.H - conv.K + 1, conv.W - conv.K + 1)
    if out is None:
        out = np.empty(shape, np.float32)
    elif out.shape != shape or out.dtype != np.float32 or not out.flags.c_contiguous:
        raise UsageError(f"out must be a C-contiguous float32 array of shape {shape}")
    name = None if layer is None else layer.encode()
    pointers = (x.ctypes.data, weight.ctypes.data, out.ctypes.data, name)
    if backend == "gpu":
        check(lib.fops_conv_forward_staged(kernel.encode(), device, ctypes.byref(conv), *pointers))
    else:
        check(lib.fops_conv_forward_cpu(kernel.encode(), ctypes.byref(conv), *pointers))
    return out


def launch(kernel: str, conv: _Conv, x: int, weight: int, y: int, stream: int) -> None:
    """One convolution on tensors that lie on the current CUDA device, queued on a stream and not waited for.

    Parameters
    ----------
    kernel, conv
        The variant, and what `describe` made of the shapes.
    x, weight, y, stream
        Device pointers, and a cudaStream_t, as integers; stream 0 is the default one.

    Raises
    ------
    UsageError, DeviceError
        For a shape that the kernel does not take, and for a device that fails.
    """
    check(library().fops_conv_forward_cuda(kernel.encode(), ctypes.byref(conv), x, weight, y, stream))


def drain_log() -> List[OpTime]:
    """Take every record out of the op-time log, oldest first."""
    lib = library()
    records = (_OpRecord * max(1, lib.fops_log_size()))()
    count = lib.fops_log_drain(records, len(records))
    return [
        OpTime(
            r.layer.decode(),
            r.kernel.decode(),
            tuple(getattr(r.conv, name) for name in "BCHWMK"),
            r.seconds,
            r.upload,
            r.download,
            1 if r.conv.x_type == _UINT8 else 4,
        )
        for r in records[:count]
    ]


def cuda_devices() -> List[CudaDevice]:
    """The CUDA devices that the library can use.

    Raises
    ------
    DeviceError
        When there is none, with the reason.
    """
    lib = library()
    count = ctypes.c_int()
    check(lib.fops_cuda_device_count(ctypes.byref(count)))
    found = []
    for index in range(count.value):
        info = _DeviceInfo()
        check(lib.fops_cuda_device_info(index, ctypes.byref(info)))
        found.append(
            CudaDevice(
                index,
                info.name.decode(errors="replace"),
                (info.major, info.minor),
                info.multiprocessors,
                info.memory_total,
                info.memory_free,
                _cuda_version(info.driver_version),
                _cuda_version(info.runtime_version),
            )
        )
    return found


def _cuda_version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"
