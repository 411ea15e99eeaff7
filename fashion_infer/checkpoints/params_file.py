"""Reads MXNet's .params files, and checks every length in a file before using it.

This module is used instead of MXNet's own reader, in which a damaged length or shape can end the process. The tests
compare both readers. Files are written by MXNet itself (`mxnet.nd.save`).

All numbers are little-endian. The file has
  uint64 0x112, uint64 0,
  uint64 number of arrays, and the arrays,
  uint64 number of names, and the names, each of which is a uint64 length and its bytes.
The beginning of an array depends on the version of its format (src/ndarray/ndarray.cc of MXNet 1.9.1, NDArray::Load):
  V3, V2   uint32 0xF993FACA or 0xF993FAC9, int32 storage type (0: dense), shape as int32 ndim and int64 sizes
  V1       uint32 0xF993FAC8, shape as uint32 ndim and int64 sizes
  older    uint32 ndim (no magic), uint32 sizes
Then, in all versions, there are int32 device type, int32 device index, int32 element type, and the elements.
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
    """Position, shape and type of an array in the file."""

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
    """Return the arrays of a .params file by their names in the file, such as "arg:fc_weight".

    Parameters
    ----------
    path
        The file.
    wanted
        A function that is called with each name in the file, and returns whether to read its array. By default, all
        arrays are read.

    Raises
    ------
    CheckpointError
        When the file is missing, is not in MXNet's format, or the arrays to read exceed the size limit for weights (see
        `check_size`).
    """
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
