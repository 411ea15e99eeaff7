"""The tensors that referee and worker share, in a file in memory: data, weights and output, with guard zones between.

    | guard | x | guard | k | guard | y | guard |

The file cannot be shortened by the worker: reading what is gone would end the referee.
"""

import contextlib
import fcntl
import mmap
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Iterator, List, NamedTuple, Tuple

import numpy as np

from ...graph.shapes import ConvolutionShape

_GUARD = 1 << 16  # bytes; a page or more, so that a whole row of the largest layer still falls into it
_PAGE = 4096
_ADD_SEALS, _SEALS = 1033, 0x1 | 0x2 | 0x4  # F_ADD_SEALS; no more seals, no shrinking, no growing
_PIECE = 1 << 21  # floats at a time
WORKERS = os.cpu_count() or 1


class Place(NamedTuple):
    """Where the tensors of a shape lie: bytes from the beginning, and the bytes of all."""

    x: int
    k: int
    y: int
    end: int
    guards: Tuple[Tuple[int, int], ...]


def place(shape: ConvolutionShape, start: int = 0) -> Place:
    """The layout of a shape's tensors, from a multiple of a page on."""
    at, starts, guards = start, [], []
    for size in (shape.data, shape.weights, shape.output):
        begin = _up(at + _GUARD)
        guards.append((at, begin))
        starts.append(begin)
        at = begin + 4 * int(np.prod(size))
    end = _up(at + _GUARD)
    x, k, y = starts
    return Place(x, k, y, end, (*guards, (at, end)))


class Memory:
    """The shared file, mapped here.

    Parameters
    ----------
    size
        Bytes: the largest `Place.end` of the calls to come.
    """

    def __init__(self, size: int):
        self.size = size
        # Python offers memfd_create from 3.8 on, and fcntl's seals from 3.9.
        self.descriptor = os.memfd_create("tensors", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.descriptor, size)
        fcntl.fcntl(self.descriptor, _ADD_SEALS, _SEALS)
        self._map = mmap.mmap(self.descriptor, size)
        self._bytes = np.frombuffer(self._map, np.uint8)

    def close(self) -> None:
        """Give the memory back. Arrays of it must be gone, or live as long as the process."""
        os.close(self.descriptor)
        del self._bytes
        with contextlib.suppress(BufferError):
            self._map.close()

    def clear(self) -> None:
        """Leave nothing of what an earlier process wrote."""
        fill(self._bytes.view(np.float32), 0.0)

    def tensor(self, at: int, size: Tuple[int, ...]) -> np.ndarray:
        """The float32 tensor at a place; no copy."""
        return self._bytes[at : at + 4 * int(np.prod(size))].view(np.float32).reshape(size)

    def zone(self, guard: Tuple[int, int]) -> np.ndarray:
        """The bytes of a guard zone."""
        return self._bytes[guard[0] : guard[1]]


def fill(y: np.ndarray, value: float) -> None:
    """Set every element, with all cores."""
    in_pieces(y.reshape(-1), lambda piece: piece.fill(value))


def count_nan(y: np.ndarray) -> int:
    """How many elements are NaN."""
    return sum(in_pieces(y.reshape(-1), lambda piece: int(np.isnan(piece).sum())))


def in_pieces(flat: np.ndarray, work) -> List:
    """Apply `work` to each piece of a flat array on all cores: NumPy releases the interpreter's lock."""
    with ThreadPoolExecutor(WORKERS) as pool:
        return list(pool.map(work, _pieces(flat)))


def _pieces(flat: np.ndarray) -> Iterator[np.ndarray]:
    return (flat[start : start + _PIECE] for start in range(0, flat.size, _PIECE))


def _up(size: int) -> int:
    return -(-size // _PAGE) * _PAGE
