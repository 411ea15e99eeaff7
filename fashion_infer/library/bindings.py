"""The operator library, libfashion_ops.so, through ctypes: its structures, prototypes, and statuses.

The contracts are in custom_ops/include/fashion_ops.h. FASHION_OPS_LIBRARY is the path of a library to use instead.
"""

import ctypes
import functools
import os
from pathlib import Path
from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from ..errors import DeviceError, UsageError
from ..system import installation
from .plugin_abi import OK, ConvSize

BACKENDS = {"cpu": 0, "gpu": 1}
FLOAT32, UINT8 = 0, 1
NOT_LOGGED = -1  # used instead of a node's number: the run is not logged
INVALID, UNKNOWN_KERNEL, UNSUPPORTED, NO_DEVICE, OUT_OF_MEMORY = range(1, 6)

Text, Int, Handle = ctypes.c_char_p, ctypes.c_int, ctypes.c_void_p


class KernelInfo(ctypes.Structure):
    """The C API's structure fops_kernel_info."""

    _fields_ = [(name, ctypes.c_char_p) for name in ("name", "summary", "takes", "precision")]


class OpRecord(ctypes.Structure):
    """The C API's structure fops_op_record."""

    _fields_ = [
        ("first_node", ctypes.c_int32),
        ("last_node", ctypes.c_int32),
        ("kernel", ctypes.c_char_p),
        ("conv", ConvSize),
        ("seconds", ctypes.c_double),
        ("upload", ctypes.c_double),
        ("download", ctypes.c_double),
        ("layer_seconds", ctypes.c_double),
        ("findings", ctypes.c_uint32),
    ]


class DeviceInfo(ctypes.Structure):
    """The C API's structure fops_device_info."""

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


class NetworkNode(ctypes.Structure):
    """The C API's structure fops_node."""

    _fields_ = [
        ("op", ctypes.c_char_p),
        ("name", ctypes.c_char_p),
        ("keys", ctypes.POINTER(ctypes.c_char_p)),
        ("values", ctypes.POINTER(ctypes.c_char_p)),
        ("attribute_count", ctypes.c_int),
        ("inputs", ctypes.POINTER(ctypes.c_int)),
        ("input_count", ctypes.c_int),
        ("number", ctypes.c_int32),
    ]


class StageInfo(ctypes.Structure):
    """The C API's structure fops_stage_info."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("kind", ctypes.c_char_p),
        ("first_node", ctypes.c_int32),
        ("last_node", ctypes.c_int32),
        ("input", ctypes.c_int64 * 3),
        ("output", ctypes.c_int64 * 3),
        ("K", ctypes.c_int64),
        ("activation", ctypes.c_int),
        ("pool_size", ctypes.c_int64),
        ("pool_stride", ctypes.c_int64),
    ]


def _prototypes():
    text, integer, pointer, n, node = ctypes.c_char_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32
    nodes = ctypes.POINTER(NetworkNode)
    to, conv = ctypes.POINTER, ctypes.POINTER(ConvSize)
    tensors = [pointer, pointer, pointer]  # x, weights, y
    return {
        "fops_last_error": (text, []),
        "fops_build_info": (text, []),
        "fops_cpu_isa": (text, []),
        "fops_set_threads": (integer, [integer]),
        "fops_get_threads": (integer, []),
        "fops_device_count": (integer, [to(integer)]),
        "fops_device_describe": (integer, [integer, to(DeviceInfo)]),
        "fops_kernel_count": (integer, [integer]),
        "fops_kernel_describe": (integer, [integer, integer, to(KernelInfo)]),
        "fops_register_kernel": (integer, [text, pointer]),
        "fops_examine": (None, [integer]),
        "fops_conv_check": (integer, [integer, text, conv, to(text)]),
        "fops_conv_forward_cpu": (integer, [text, conv, *tensors, node]),
        "fops_conv_forward_gpu": (integer, [text, conv, *tensors, pointer]),
        "fops_conv_forward_timed": (integer, [text, conv, *tensors, pointer, node]),
        "fops_conv_forward_staged": (integer, [text, integer, conv, *tensors, node]),
        "fops_network_create": (integer, [nodes, integer, to(n), integer, integer, integer, text, to(pointer)]),
        "fops_network_destroy": (None, [pointer]),
        "fops_network_input_count": (integer, [pointer]),
        "fops_network_input_name": (text, [pointer, integer]),
        "fops_network_input_size": (n, [pointer, integer]),
        "fops_network_data": (integer, [pointer]),
        "fops_network_stage_count": (integer, [pointer]),
        "fops_network_stage": (integer, [pointer, integer, to(StageInfo)]),
        "fops_network_set_weights": (integer, [pointer, to(pointer), to(ctypes.c_uint64)]),
        "fops_network_forward": (integer, [pointer, n, pointer, integer, pointer, integer]),
        "fops_network_predict": (integer, [pointer, n, pointer, integer, pointer]),
        "fops_network_forward_gpu": (integer, [pointer, n, pointer, integer, pointer, pointer]),
        "fops_log_size": (integer, []),
        "fops_log_drain": (integer, [to(OpRecord), integer]),
    }


def library_path() -> Path:
    named = os.environ.get("FASHION_OPS_LIBRARY")
    return Path(os.path.realpath(named)) if named else installation.library_path()


# Messages of the dynamic loader if there is not enough memory for a library.
_NO_ROOM = ("failed to map segment", "cannot allocate memory", "Cannot allocate memory")


@functools.lru_cache(maxsize=None)
def load() -> ctypes.CDLL:
    """Load the library once, and declare its prototypes; DeviceError if it is missing or cannot be loaded."""
    path = library_path()
    if not os.path.isfile(path):
        raise DeviceError(f"the operator library is missing ({path}): run `make setup`, or `pip install .` again")
    try:
        lib = ctypes.CDLL(str(path))
        for name, (result, arguments) in _prototypes().items():
            function = getattr(lib, name)
            function.restype, function.argtypes = result, arguments
    except (OSError, AttributeError) as error:
        detail = " ".join(str(error).split())
        full = any(words in detail for words in _NO_ROOM)
        advice = "raise the limit on address space (`ulimit -v`)" if full else "rebuild it with `make setup`"
        raise DeviceError(f"the operator library {path} cannot be loaded ({detail}): {advice}") from None
    return lib


def message() -> str:
    return load().fops_last_error().decode()


def check(status: int) -> None:
    """Raise an error if a status of the library is not OK: UsageError for the caller's mistakes, else DeviceError."""
    if status != OK:
        usage = status in (INVALID, UNKNOWN_KERNEL, UNSUPPORTED)
        raise (UsageError if usage else DeviceError)(message())


def element_type(dtype: Any) -> int:
    """Return the library's number of an element type: that of uint8, or of float32 for any other type."""
    return UINT8 if np.dtype(dtype) == np.uint8 else FLOAT32


def address(array: np.ndarray) -> int:
    """Return the address of a contiguous array. This is faster than `ctypes.data`, which matters for small networks."""
    if array.flags.writeable and array.size:
        return ctypes.addressof(ctypes.c_byte.from_buffer(array.data))
    return array.ctypes.data


def output_array(out: Optional[np.ndarray], shape: Tuple[int, ...], kind: Any) -> np.ndarray:
    """Return `out`, or a new array if it is None; UsageError if the library cannot write the result to it."""
    if out is None:
        return np.empty(shape, kind)
    if out.shape != shape or out.dtype != kind or not out.flags.c_contiguous:
        raise UsageError(f"out must be a C-contiguous {np.dtype(kind)} array of shape {shape}")
    return out


def sizes(values: Sequence[int]) -> ctypes.Array:
    return (ctypes.c_int64 * len(values))(*values)


def weight_pointers(addresses: Sequence[Optional[int]], version: int) -> Tuple[ctypes.Array, ctypes.Array]:
    """Return ctypes arrays of the weights' addresses (null if None) and of their versions, which are all the same."""
    count = len(addresses)
    return (ctypes.c_void_p * count)(*addresses), (ctypes.c_uint64 * count)(*[version] * count)


def nodes(described: Sequence[Tuple[str, str, dict, Sequence[int]]]) -> Tuple[ctypes.Array, List]:
    """Convert nodes of (operator, name, attributes, inputs) to structures; also return what these refer to."""
    array, kept = (NetworkNode * len(described))(), []
    for number, (target, (op, name, attributes, inputs)) in enumerate(zip(array, described)):
        keys = (ctypes.c_char_p * len(attributes))(*[key.encode() for key in attributes])
        values = (ctypes.c_char_p * len(attributes))(*[value.encode() for value in attributes.values()])
        numbers = (ctypes.c_int * len(inputs))(*inputs)
        kept += [keys, values, numbers]
        target.op, target.name, target.number = op.encode(), name.encode(), number
        target.keys, target.values, target.attribute_count = keys, values, len(attributes)
        target.inputs, target.input_count = numbers, len(inputs)
    return array, kept


def build_info() -> str:
    """Return version, compiler, instruction sets and CUDA architectures of the library, in one line."""
    return load().fops_build_info().decode()


def cpu_isa() -> str:
    """Return the instruction set that the fast CPU kernels use here: "avx512", "avx2", "neon" or "generic"."""
    return load().fops_cpu_isa().decode()


def set_threads(threads: Optional[int]) -> None:
    """Set the number of threads, 1 to 1024; None or 0 sets the default: one per core that this process may use."""
    check(load().fops_set_threads(threads or 0))


def thread_count() -> int:
    return load().fops_get_threads()
