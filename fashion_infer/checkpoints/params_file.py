"""Read MXNet's .params files, with every length checked before it is believed.

MXNet's own reader trusts the file: a damaged length or shape can end the process (std::bad_alloc, a failed check in
another thread). Files come from users and from the network, so they are read here; MXNet itself writes them
(`mxnet.nd.save`), and the tests compare the two.

Layout, little-endian: uint64 0x112 and uint64 0; uint64 count and that many arrays; uint64 count and that many names
(uint64 length, bytes). An array, by the version that wrote it (src/ndarray/ndarray.cc of MXNet 1.9.1, NDArray::Load):
  V3, V2   uint32 0xF993FACA or 0xF993FAC9, int32 storage type (0: dense), shape as int32 ndim and int64 sizes
  V1       uint32 0xF993FAC8, shape as uint32 ndim and int64 sizes
  older    uint32 ndim (no magic), uint32 sizes
then int32 device type, int32 device index, int32 element type, and the elements.
"""

import struct
from pathlib import Path
from typing import Dict, Tuple

import numpy as np

from ..errors import CheckpointError

_LIST_MAGIC = 0x112
_V1, _V2, _V3 = 0xF993FAC8, 0xF993FAC9, 0xF993FACA
_DTYPES = {0: "<f4", 1: "<f8", 2: "<f2", 3: "u1", 4: "<i4", 5: "i1", 6: "<i8"}
_MAX_DIMENSIONS = 32


class _Reader:
    def __init__(self, content: bytes):
        self.content, self.offset = content, 0

    def bytes(self, size: int) -> bytes:
        if size > len(self.content) - self.offset:
            raise ValueError(f"it ends too early (at {len(self.content)} bytes)")
        self.offset += size
        return self.content[self.offset - size : self.offset]

    def numbers(self, code: str, count: int = 1) -> Tuple[int, ...]:
        return struct.unpack(f"<{count}{code}", self.bytes(count * struct.calcsize(code)))

    def number(self, code: str) -> int:
        return self.numbers(code)[0]

    def shape(self, ndim: int, code: str) -> Tuple[int, ...]:
        if not 0 < ndim <= _MAX_DIMENSIONS:
            raise ValueError(f"an array has {ndim} dimensions")
        shape = self.numbers(code, ndim)
        if min(shape) < 0:
            raise ValueError(f"an array has shape {shape}")
        return shape

    def array(self) -> np.ndarray:
        magic = self.number("I")
        if magic in (_V2, _V3):
            if self.number("i") != 0:
                raise ValueError("it holds a sparse array, which is not supported")
            shape = self.shape(self.number("i"), "q")
        elif magic == _V1:
            shape = self.shape(self.number("I"), "q")
        else:
            shape = self.shape(magic, "I")
        self.numbers("i", 2)  # the device it was saved from: of no interest
        code = self.number("i")
        if code not in _DTYPES:
            raise ValueError(f"an array has the unknown element type {code}")
        dtype = np.dtype(_DTYPES[code])
        size = dtype.itemsize
        for extent in shape:  # Python integers: no overflow
            size *= extent
        return np.frombuffer(self.bytes(size), dtype).reshape(shape).copy()


def read(path: Path) -> Dict[str, np.ndarray]:
    """Every array of a .params file by the name it was saved under ("arg:fc_weight", ...).

    Raises
    ------
    CheckpointError
        When the file is missing or is not, from first to last byte, what MXNet writes.
    """
    try:
        reader = _Reader(path.read_bytes())
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror or error}") from None
    try:
        if reader.number("Q") != _LIST_MAGIC:
            raise ValueError("it does not begin as MXNet's files do")
        reader.number("Q")
        arrays = []
        for _ in range(reader.number("Q")):  # ends at the end of the file, whatever the count says
            arrays.append(reader.array())
        names = []
        for _ in range(reader.number("Q")):
            names.append(reader.bytes(reader.number("Q")).decode("utf-8"))
        if len(names) != len(arrays) or len(set(names)) != len(names):
            raise ValueError(f"it has {len(arrays)} arrays but {len(set(names))} names")
        if reader.offset != len(reader.content):
            raise ValueError("it goes on past its end")
    except (ValueError, UnicodeDecodeError, MemoryError, struct.error) as error:
        raise CheckpointError(f"{path} is not a whole .params file of MXNet: {error}") from None
    return dict(zip(names, arrays))
