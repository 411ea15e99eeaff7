"""Reads MXNet's .params files, and checks every length in a file before using it.

In MXNet's own reader, a damaged length can end the process. The format is that of NDArray::Load in MXNet 1.9.1
(src/ndarray/ndarray.cc): arrays, then their names, little-endian. An array without a magic is of the oldest version.
"""

import os
import struct
from pathlib import Path
from typing import BinaryIO, Callable, Dict, NamedTuple, Tuple

import numpy as np

from ..errors import CheckpointError
from ..system.inputs import open_regular
from .checkpoint import check_size

_LIST_MAGIC = 0x112
_V1, _V2, _V3 = 0xF993FAC8, 0xF993FAC9, 0xF993FACA
_DTYPES = {0: "<f4", 1: "<f8", 2: "<f2", 3: "u1", 4: "<i4", 5: "i1", 6: "<i8"}
_MAX_DIMENSIONS = 32
_MOST_ARRAYS = 10_000  # more than a network can have, whose limit is 2,000 nodes
_LONGEST_NAME = 16_384  # bytes; a node's name has at most 4,096 characters


class _Stored(NamedTuple):
    offset: int
    dtype: np.dtype
    shape: Tuple[int, ...]


class _Reader:
    """Reads a .params file. Every length is compared with the rest of the file before as many bytes are read."""

    def __init__(self, file: BinaryIO):
        self.file, self.size = file, os.fstat(file.fileno()).st_size

    def ahead(self, size: int) -> int:
        """Return the current position in the file; ValueError if fewer than `size` bytes follow."""
        offset = self.file.tell()
        if size > self.size - offset:
            raise ValueError(f"it ends too early (at {self.size} bytes)")
        return offset

    def bytes(self, size: int) -> bytes:
        self.ahead(size)
        content = self.file.read(size)
        if len(content) != size:
            raise ValueError("it changed while it was read")
        return content

    def numbers(self, code: str, count: int = 1) -> Tuple[int, ...]:
        return struct.unpack(f"<{count}{code}", self.bytes(count * struct.calcsize(code)))

    def number(self, code: str) -> int:
        return self.numbers(code)[0]

    def count(self) -> int:
        count = self.number("Q")
        if count > _MOST_ARRAYS:
            raise ValueError(f"it has {count} arrays or names")
        return count

    def name(self) -> str:
        length = self.number("Q")
        self.ahead(length)
        if length > _LONGEST_NAME:
            raise ValueError(f"it has a name of {length} bytes")
        return self.bytes(length).decode("utf-8")

    def shape(self, ndim: int, code: str) -> Tuple[int, ...]:
        if not 0 < ndim <= _MAX_DIMENSIONS:
            raise ValueError(f"an array has {ndim} dimensions")
        shape = self.numbers(code, ndim)
        if min(shape) < 0:
            raise ValueError(f"an array has shape {shape}")
        return shape

    def array(self) -> _Stored:
        magic = self.number("I")
        if magic in (_V2, _V3):
            if self.number("i") != 0:
                raise ValueError("it has a sparse array, which is not supported")
            shape = self.shape(self.number("i"), "q")
        elif magic == _V1:
            shape = self.shape(self.number("I"), "q")
        else:
            shape = self.shape(magic, "I")
        self.numbers("i", 2)  # skip the device's type and index
        code = self.number("i")
        if code not in _DTYPES:
            raise ValueError(f"an array has the unknown element type {code}")
        dtype = np.dtype(_DTYPES[code])
        size = dtype.itemsize
        for extent in shape:  # Python's integers do not overflow
            size *= extent
        offset = self.ahead(size)
        self.file.seek(size, os.SEEK_CUR)
        return _Stored(offset, dtype, shape)

    def values(self, stored: _Stored) -> np.ndarray:
        self.file.seek(stored.offset)
        values = np.empty(stored.shape, stored.dtype)
        if self.file.readinto(values.reshape(-1).view(np.uint8)) != values.nbytes:  # type: ignore[attr-defined]
            raise ValueError("it changed while it was read")
        return values


def read(path: Path, wanted: Callable[[str], bool] = lambda name: True) -> Dict[str, np.ndarray]:
    """Return the arrays whose names, such as "arg:fc_weight", are `wanted`; CheckpointError for a damaged file."""
    try:
        with open_regular(path) as file:
            return _read(_Reader(file), wanted)
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror or error}") from None
    except (ValueError, UnicodeDecodeError, MemoryError, OverflowError, struct.error) as error:
        raise CheckpointError(f"{path} is not a complete .params file of MXNet: {error}") from None


def _read(reader: _Reader, wanted: Callable[[str], bool]) -> Dict[str, np.ndarray]:
    if reader.number("Q") != _LIST_MAGIC:
        raise ValueError("it does not begin as MXNet's files do")
    reader.number("Q")
    arrays = [reader.array() for _ in range(reader.count())]
    names = [reader.name() for _ in range(reader.count())]
    if len(names) != len(arrays) or len(set(names)) != len(names):
        raise ValueError(
            f"it has {len(arrays)} arrays, but {len(names)} names, of which {len(set(names))} are different"
        )
    if reader.file.tell() != reader.size:
        raise ValueError("it has bytes after the last name")
    found = {name: stored for name, stored in zip(names, arrays) if wanted(name)}
    check_size({name: stored.shape for name, stored in found.items()})
    return {name: reader.values(stored) for name, stored in found.items()}
