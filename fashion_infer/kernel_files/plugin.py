"""Plug-ins of the operator library through ctypes: loads them, creates them from Python functions, registers them."""

import ctypes
import functools
import hashlib
import time
import traceback
from pathlib import Path
from typing import Any, Dict, NamedTuple, Optional, Sequence

import numpy as np

from ..errors import DeviceError
from ..library import bindings
from ..library.plugin_abi import DEVICE_ERROR, OK, RUN_PLUGIN, ConvSize, PluginDescription
from ..system import isolation

ABI = 1
_ACCEPTS = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ConvSize))


class Plugin(NamedTuple):
    description: PluginDescription
    key: str  # identifies the code
    kept: Any  # objects that must live as long as the process

    @property
    def backend(self) -> str:
        return {number: name for name, number in bindings.BACKENDS.items()}[self.description.backend]


_kept: Dict[str, Plugin] = {}  # registered plug-ins are never removed


def opened(library: Path) -> Plugin:
    """Load the plug-in that a shared library exports; DeviceError if it cannot be loaded."""
    handle = _dlopen(library)
    try:
        main = handle.fops_kernel_plugin_main
    except AttributeError:
        raise DeviceError(f"{library} exports no fops_kernel_plugin_main") from None
    main.restype = ctypes.POINTER(PluginDescription)
    description = main()
    if not description:
        raise DeviceError(f"{library}: its fops_kernel_plugin_main returns no kernel")
    return Plugin(description.contents, library.stem, handle)  # the name of a build identifies its inputs


def backend_of(library: Path) -> str:
    """Return the backend that a plug-in reports; another library is for the GPU if it names the CUDA runtime."""
    data = library.read_bytes()
    if b"\0fops_kernel_plugin_main\0" in data:
        return opened(library.resolve()).backend
    return "gpu" if b"cudaLaunchKernel" in data or b"libcuda" in data else "cpu"


def prebuilt(library: Path, backend: str) -> Plugin:
    """Load the kernel of a prebuilt library: a plug-in, or one that exports the plain C function."""
    library = library.resolve()
    data = library.read_bytes()
    key = hashlib.sha256(data + backend.encode()).hexdigest()
    if b"\0fops_kernel_plugin_main\0" in data:
        return opened(library)._replace(key=key)
    handle = _dlopen(library)
    pointer, integer = ctypes.c_void_p, ctypes.c_int
    function = handle.conv_forward
    function.restype = None
    function.argtypes = [pointer] * 3 + [integer] * 6 + ([pointer] if backend == "gpu" else [])

    def run(call):
        conv = call.conv
        arguments = [call.x, call.k, call.y, conv.B, conv.M, conv.C, conv.H, conv.W, conv.K]
        if backend == "gpu":
            _settled(_driver().cuStreamSynchronize(ctypes.c_void_p(call.stream)), "before")
            arguments.append(call.stream)
        start = time.perf_counter()
        function(*arguments)
        if backend == "gpu":  # it may have used another stream
            _settled(_driver().cuCtxSynchronize(), "after")
        call.op_seconds = time.perf_counter() - start

    return described(run, backend, "prebuilt", key, host_memory=backend == "cpu")


def described(
    run, backend: str, summary: str, key: str, host_memory: bool, takes=None, source: Optional[Path] = None
) -> Plugin:
    """Create a plug-in from a Python function of a `plugin_abi.PluginCall`; its errors become the call's message."""

    def guarded(pointer):
        call = pointer.contents
        try:
            run(call)
        except BaseException as error:  # no exception may cross the C API, not even KeyboardInterrupt
            lines = [at.lineno for at in traceback.extract_tb(error.__traceback__) if at.filename == str(source)]
            where = f"line {lines[-1]}: " if lines else ""
            call.message = " ".join(f"{where}{type(error).__name__}: {error}".split()).encode()[:511]
            return DEVICE_ERROR
        return OK

    callback = RUN_PLUGIN(guarded)
    number = bindings.BACKENDS[backend]
    accepts = _ACCEPTS(lambda conv: int(takes(conv.contents))) if takes else None
    address = ctypes.cast(accepts, ctypes.c_void_p) if accepts else None
    description = PluginDescription(ABI, number, host_memory, 0, 1, summary.encode(), b"", b"", address, callback)
    return Plugin(description, key, (callback, accepts))


def floats_at(address: int, shape: Sequence[int]) -> np.ndarray:
    buffer = (ctypes.c_float * int(np.prod(shape))).from_address(address)
    return np.ctypeslib.as_array(buffer).reshape(shape)


def register(name: str, plugin: Plugin) -> None:
    """Add a plug-in to the library's kernels; UsageError or DeviceError for a taken name or an incompatible plug-in."""
    pointer = ctypes.cast(ctypes.pointer(plugin.description), ctypes.c_void_p)
    bindings.check(bindings.load().fops_register_kernel(name.encode(), pointer))
    _kept[name] = plugin


@functools.lru_cache(maxsize=None)
def _driver() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


def _settled(status: int, when: str) -> None:
    if status:
        raise RuntimeError(f"CUDA error {status} {when} conv_forward")


@functools.lru_cache(maxsize=None)
def _dlopen(library: Path) -> ctypes.CDLL:
    isolation.started()  # a crash while the library loads is the library's fault too
    try:
        return ctypes.CDLL(str(library))
    except OSError as error:
        raise DeviceError(f"{library} cannot be loaded ({' '.join(str(error).split())})") from None
