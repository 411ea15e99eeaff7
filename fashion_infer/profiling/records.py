"""Records of activities, such as kernels and calls, and their names."""

import ctypes
import functools
from typing import Any, Dict, List, NamedTuple, Sequence

KERNEL, COPY, SET = "kernel", "copy", "set"  # on a GPU
API = "api"  # a call into CUDA, or into MXNet's C API on the CPU
NODE = "node"  # a node of MXNet's graph, or work of its engine
STAGE = "stage"  # a stage of the fused mode
DEVICE_KINDS = (KERNEL, COPY, SET)


class Record(NamedTuple):
    """An activity. Its duration is in nanoseconds; its start is in nanoseconds since 1970 (Unix time)."""

    kind: str
    name: str
    start: int
    duration: int
    lane: str  # place of the activity: "device 0, stream 7", or a thread
    bytes: int = 0  # number of bytes that were moved; 0 if unknown

    @property
    def end(self) -> int:
        return self.start + self.duration


def of(records: Sequence[Record], *kinds: str) -> List[Record]:
    """Return the records of some kinds, in the order of their start."""
    return sorted((r for r in records if r.kind in kinds), key=lambda r: (r.start, -r.duration))


def outermost(records: Sequence[Record]) -> List[Record]:
    """Drop records nested in another of their lane (a driver call in a runtime call): their time would count twice."""
    kept: List[Record] = []
    ends: Dict[Any, int] = {}
    for record in sorted(records, key=lambda r: (r.start, -r.duration)):
        if record.end > ends.get(record.lane, -1):
            kept.append(record)
            ends[record.lane] = record.end
    return kept


@functools.lru_cache(maxsize=None)
def demangle(name: str) -> str:
    """Return the demangled C++ name; return the name unchanged if it is not mangled or there is no C++ runtime."""
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
