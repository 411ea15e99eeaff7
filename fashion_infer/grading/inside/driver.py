"""The part of the CUDA driver's interface that referee and worker need, called through ctypes, without our library.

A call that fails raises DriverError, which names the function and the error.
"""

import ctypes
import functools
import os
from typing import Any, Callable

from . import abi

_PINNED, _FILE_DESCRIPTOR, _ON_DEVICE, _READ_WRITE = 1, 1, 1, 3
_L2_BYTES = 38  # CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE


class DriverError(RuntimeError):
    """Raised when a call of the driver fails."""


class _Location(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("device", ctypes.c_int)]


class _Properties(ctypes.Structure):
    _fields_ = [
        ("kind", ctypes.c_int),
        ("handles", ctypes.c_int),
        ("location", _Location),
        ("windows", ctypes.c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    ]


class _Access(ctypes.Structure):
    _fields_ = [("location", _Location), ("flags", ctypes.c_int)]


@functools.lru_cache(maxsize=None)
def library() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


def call(name: str, *arguments: Any) -> None:
    """Call a function of the driver. Sizes and pointers must be ctypes objects: ctypes passes an int as 32 bits."""
    status = getattr(library(), name)(*arguments)
    if status:
        text = ctypes.c_char_p()
        library().cuGetErrorName(status, ctypes.byref(text))
        raise DriverError(f"{name}: {(text.value or b'an unknown error').decode()}")


def begin(ordinal: int) -> int:
    """Make the primary context of device number `ordinal` current in this thread; return the device's handle. The CUDA
    runtime uses this context, too."""
    device, context = ctypes.c_int(), ctypes.c_void_p()
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), ordinal)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)
    return device.value


def copy(direction: str, target: int, source: int, size: int) -> None:
    """Copy `size` bytes between addresses; `direction` is "HtoD", "DtoH" or "DtoD" (H for host, D for device)."""
    call(f"cuMemcpy{direction}_v2", ctypes.c_ulonglong(target), ctypes.c_ulonglong(source), ctypes.c_size_t(size))


def synchronize() -> None:
    call("cuCtxSynchronize")


def timed(work: Callable[[], None]) -> float:
    begun, ended, taken = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_float()  # milliseconds
    for event in (begun, ended):
        call("cuEventCreate", ctypes.byref(event), 0)
    try:
        call("cuEventRecord", begun, None)
        work()
        call("cuEventRecord", ended, None)
        call("cuEventSynchronize", ended)
        call("cuEventElapsedTime", ctypes.byref(taken), begun, ended)
    finally:
        for event in (begun, ended):
            call("cuEventDestroy_v2", event)
    return 1e-3 * taken.value


def l2_bytes(device: int) -> int:
    size = ctypes.c_int()
    call("cuDeviceGetAttribute", ctypes.byref(size), _L2_BYTES, device)
    return size.value


class Block:
    """Device memory that two processes map: allocated here, or imported by its descriptor. `size` is in bytes; it is
    rounded up if the memory is allocated here."""

    def __init__(self, device: int, size: int, descriptor: Any = None):
        location = _Location(_ON_DEVICE, device)
        self._handle, zero = ctypes.c_ulonglong(), ctypes.c_ulonglong(0)
        handle = ctypes.byref(self._handle)
        self.descriptor = -1
        if descriptor is None:
            wanted = _Properties(_PINNED, _FILE_DESCRIPTOR, location)
            grain = ctypes.c_size_t()
            call("cuMemGetAllocationGranularity", ctypes.byref(grain), ctypes.byref(wanted), 0)
            size = -(-size // grain.value) * grain.value
            call("cuMemCreate", handle, ctypes.c_size_t(size), ctypes.byref(wanted), zero)
            exported = ctypes.c_int(-1)
            call("cuMemExportToShareableHandle", ctypes.byref(exported), self._handle, _FILE_DESCRIPTOR, zero)
            self.descriptor = exported.value
        else:
            call("cuMemImportFromShareableHandle", handle, ctypes.c_void_p(descriptor), _FILE_DESCRIPTOR)
        self.size = size
        address = ctypes.c_ulonglong()
        call("cuMemAddressReserve", ctypes.byref(address), ctypes.c_size_t(size), ctypes.c_size_t(0), zero, zero)
        self.address = address.value
        call("cuMemMap", address, ctypes.c_size_t(size), ctypes.c_size_t(0), self._handle, zero)
        access = _Access(location, _READ_WRITE)
        call("cuMemSetAccess", address, ctypes.c_size_t(size), ctypes.byref(access), ctypes.c_size_t(1))

    def close(self) -> None:
        address, size = ctypes.c_ulonglong(self.address), ctypes.c_size_t(self.size)
        call("cuMemUnmap", address, size)
        call("cuMemAddressFree", address, size)
        call("cuMemRelease", self._handle)


class Device:
    def __init__(self, size: int, descriptor: int):
        device = begin(0)
        self.memory = 0
        if size:
            self._block = Block(device, size, descriptor)
            self.memory = self._block.address
            os.close(descriptor)

    def settle(self, call: abi.PluginCall) -> int:
        try:
            synchronize()
        except DriverError as error:
            call.message = str(error).encode()[:500]
            return abi.DEVICE_ERROR
        return abi.OK
