"""A file in memory that referee and worker share. It holds data, weights and output, separated by guard zones.

    | guard | x | guard | k | guard | y | guard |

Seals prevent the worker from shortening the file. Without them, the referee would crash on reading the missing part.
"""

import contextlib
import fcntl
import mmap
import os
from concurrent.futures import ThreadPoolExecutor
from typing import List, NamedTuple, Sequence, Tuple

import numpy as np

from ...graph.layers import ConvolutionShape
from ...judging.inputs import KeyedStream

_GUARD = 1 << 16  # bytes of a guard zone: at least a page, and enough for a whole row of the largest layer
_PAGE = 4096
_ADD_SEALS = 1033  # F_ADD_SEALS
_SEALS = 0x1 | 0x2 | 0x4  # F_SEAL_SEAL, F_SEAL_SHRINK and F_SEAL_GROW: no more seals, no other size
_PIECE = 1 << 21  # number of floats that are processed at a time
WORKERS = os.cpu_count() or 1
# Codes of a write to a guard zone: before the data, the weights and the output, and after the output.
_STRAY = ("writes_outside", "writes_outside", "writes_before_start", "writes_after_end")


class Place(NamedTuple):
    x: int  # offsets in bytes, like all fields
    k: int
    y: int
    end: int
    guards: Tuple[Tuple[int, int], ...]  # start and end of each guard zone


def place(shape: ConvolutionShape, start: int = 0) -> Place:
    at, starts, guards = start, [], []
    for size in (shape.data, shape.weights, shape.output):
        begin = page(at + _GUARD)
        guards.append((at, begin))
        starts.append(begin)
        at = begin + 4 * int(np.prod(size))
    end = page(at + _GUARD)
    x, k, y = starts
    return Place(x, k, y, end, (*guards, (at, end)))


class Memory:
    """The shared file, mapped into this process; its size in bytes is the largest `Place.end` of all later calls."""

    def __init__(self, size: int):
        self.size = size
        # Python offers memfd_create from 3.8 on, and fcntl's seals from 3.9.
        self.descriptor = os.memfd_create("tensors", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.descriptor, size)
        fcntl.fcntl(self.descriptor, _ADD_SEALS, _SEALS)
        self._map = mmap.mmap(self.descriptor, size)
        self._bytes = np.frombuffer(self._map, np.uint8)

    def close(self) -> None:
        os.close(self.descriptor)
        del self._bytes
        with contextlib.suppress(BufferError):
            self._map.close()

    def clear(self) -> None:
        fill(self._bytes.view(np.float32), 0.0)

    def tensor(self, at: int, size: Tuple[int, ...]) -> np.ndarray:
        return self._bytes[at : at + 4 * int(np.prod(size))].view(np.float32).reshape(size)

    def zone(self, guard: Tuple[int, int]) -> np.ndarray:
        return self._bytes[guard[0] : guard[1]]


def guard_words(stream: KeyedStream, guard: Tuple[int, int], kind: str) -> np.ndarray:
    """Return secret words for a guard zone: NaN ("nan"), or numbers from 2,048 to 4,096 ("number")."""
    words = np.frombuffer(stream.take(guard[1] - guard[0]), "<u4")
    return (words & np.uint32(0x7FFFFF)) | np.uint32(0x45000000) if kind == "number" else words | np.uint32(0x7FC00000)


def stray(touched: Sequence[bool]) -> str:
    return next((code for code, changed in zip(_STRAY[::-1], touched[::-1]) if changed), "")


def fill(y: np.ndarray, value: float) -> None:
    in_pieces(y.reshape(-1), lambda piece: piece.fill(value))


def in_pieces(flat: np.ndarray, work) -> List:
    """Apply `work` to each piece of a flat array, in threads on all cores; return the results in order. Threads are
    enough, because NumPy releases the interpreter's lock."""
    with ThreadPoolExecutor(WORKERS) as pool:
        return list(pool.map(work, (flat[start : start + _PIECE] for start in range(0, flat.size, _PIECE))))


def page(size: int) -> int:
    return -(-size // _PAGE) * _PAGE
