"""Demangling of C++ names, with the C++ runtime's own function."""

import ctypes
import functools


@functools.lru_cache(maxsize=None)
def demangle(name: str) -> str:
    """Return the demangled name; return the name unchanged if it is not mangled or there is no C++ runtime."""
    runtime = _runtime()
    if runtime is None or not name.startswith("_Z"):
        return name
    status = ctypes.c_int()
    text = runtime.__cxa_demangle(name.encode(), None, None, ctypes.byref(status))
    if not text:
        return name
    try:
        return ctypes.string_at(text).decode()
    finally:
        _free(text)


@functools.lru_cache(maxsize=None)
def _runtime():
    try:
        runtime = ctypes.CDLL("libstdc++.so.6")
        runtime.__cxa_demangle.restype = ctypes.c_void_p  # allocated with malloc; `_free` releases it
        runtime.__cxa_demangle.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    except (OSError, AttributeError):
        return None
    return runtime


def _free(pointer: int) -> None:
    free = ctypes.CDLL(None).free
    free.argtypes = [ctypes.c_void_p]
    free(pointer)
