"""Reads and writes MXNet's checkpoints: pairs of files, PREFIX-symbol.json and PREFIX-NNNN.params.

Every length in a .params file is checked before it is used: in MXNet's own reader, a damaged length can end the
process. The format is that of NDArray::Load in MXNet 1.9.1 (src/ndarray/ndarray.cc): arrays, then their names,
little-endian. An array without a magic is of the oldest version.
"""

import math
import os
import struct
from pathlib import Path
from typing import Any, BinaryIO, Callable, Dict, List, NamedTuple, Tuple

import numpy as np

from .. import _mxnet
from ..errors import CheckpointError, UsageError
from ..graph.structure import LARGEST_TEXT
from ..graph.symbol import auxiliary, parse, variables
from ..system.files import replacing_together
from ..system.inputs import open_regular
from ..system.text import excerpt
from .checkpoint import Checkpoint, check_finite, check_size, notice_of_rounded, rounded

_LIST_MAGIC = 0x112
_V1, _V2, _V3 = 0xF993FAC8, 0xF993FAC9, 0xF993FACA
_DTYPES = {0: "<f4", 1: "<f8", 2: "<f2", 3: "u1", 4: "<i4", 5: "i1", 6: "<i8"}
_MAX_DIMENSIONS = 32
_MOST_ARRAYS = 10_000  # more than a network can have, whose limit is 2,000 nodes
_LONGEST_NAME = 16_384  # bytes; a node's name has at most 4,096 characters


def load(prefix: str, epoch: int = 1) -> Checkpoint:
    symbol_path, params_path = _pair(prefix, epoch)
    symbol = _text(symbol_path)
    names = set(variables(parse(symbol, str(symbol_path))))
    if not params_path.is_file():
        there = [int(p.name[len(Path(prefix).name) + 1 : -len(".params")]) for p in params_files(prefix)]
        hint = f": give --epoch {there[0]}, whose file exists" if there else ""
        raise CheckpointError(f"{params_path} is missing{hint}")

    def wanted(name: str) -> bool:
        kind, _, bare = name.partition(":")
        if kind not in ("arg", "aux") or not bare:
            raise CheckpointError(f"{params_path} has an array '{excerpt(name)}', which is not a weight")
        return bare in names

    weights: Dict[str, Any] = {}
    changed: List[str] = []
    for name, array in read_params(params_path, wanted).items():
        bare = name.partition(":")[2]
        weights[bare] = rounded(bare, array, changed)
    check_finite(weights, str(params_path))
    return Checkpoint(symbol, weights, {"epoch": epoch}, notice=notice_of_rounded(changed))


def _text(path: Path) -> str:
    try:
        with open_regular(path) as file:
            return file.read(LARGEST_TEXT + 1).decode("utf-8")
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise CheckpointError(f"{path} is not an MXNet symbol: it is not UTF-8 text") from None


def save(prefix: str, checkpoint: Checkpoint, epoch: int = 1) -> List[Path]:
    """Write both files as `mxnet.model.save_checkpoint` does, and return their paths; an error leaves old files."""
    mx = _mxnet.load()
    symbol_path, params_path = _pair(prefix, epoch)
    with replacing_together([symbol_path, params_path]) as (symbol_temporary, params_temporary):
        Path(symbol_temporary).write_text(checkpoint.symbol, encoding="utf-8")
        graph = parse(checkpoint.symbol, "the network")
        moving = {graph["nodes"][number]["name"] for number in auxiliary(graph)}
        arrays = {
            f"{'aux' if name in moving else 'arg'}:{name}": mx.nd.array(values, dtype=values.dtype)
            for name, values in checkpoint.weights.items()
        }
        try:
            mx.nd.save(params_temporary, arrays)
        except mx.MXNetError:
            raise CheckpointError(f"cannot write {params_path}: is the disk full?") from None
    return [symbol_path, params_path]


def _pair(prefix: str, epoch: int) -> Tuple[Path, Path]:
    if not 0 <= epoch <= 9999:
        raise UsageError(f"epoch must be 0 to 9999, not {epoch}")
    return Path(f"{prefix}-symbol.json"), Path(f"{prefix}-{epoch:04d}.params")


def params_files(prefix: str) -> List[Path]:
    path = Path(prefix)
    return sorted(p for p in path.parent.glob(f"{path.name}-[0-9][0-9][0-9][0-9].params") if p.is_file())


class _Stored(NamedTuple):
    offset: int
    dtype: np.dtype
    shape: Tuple[int, ...]


class _Reader:
    """Reads a .params file. Every length is compared with the rest of the file before as many bytes are read."""

    def __init__(self, file: BinaryIO):
        self.file, self.size = file, os.fstat(file.fileno()).st_size

    def ahead(self, size: int) -> int:
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
        size = dtype.itemsize * math.prod(shape)  # Python's integers do not overflow
        offset = self.ahead(size)
        self.file.seek(size, os.SEEK_CUR)
        return _Stored(offset, dtype, shape)

    def values(self, stored: _Stored) -> np.ndarray:
        self.file.seek(stored.offset)
        values = np.empty(stored.shape, stored.dtype)
        if self.file.readinto(values.reshape(-1).view(np.uint8)) != values.nbytes:  # type: ignore[attr-defined]
            raise ValueError("it changed while it was read")
        return values


def read_params(path: Path, wanted: Callable[[str], bool] = lambda name: True) -> Dict[str, np.ndarray]:
    """Return the arrays whose names, such as "arg:fc_weight", are `wanted`; CheckpointError for a damaged file."""
    try:
        with open_regular(path) as file:
            return _read_params(_Reader(file), wanted)
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror or error}") from None
    except (ValueError, UnicodeDecodeError, MemoryError, OverflowError, struct.error) as error:
        raise CheckpointError(f"{path} is not a complete .params file of MXNet: {error}") from None


def _read_params(reader: _Reader, wanted: Callable[[str], bool]) -> Dict[str, np.ndarray]:
    if reader.number("Q") != _LIST_MAGIC:
        raise ValueError("it does not begin as MXNet's files do")
    reader.number("Q")
    arrays = [reader.array() for _ in range(reader.count())]
    names = [reader.name() for _ in range(reader.count())]
    if len(names) != len(arrays) or len(set(names)) != len(names):
        raise ValueError(f"it has {len(arrays)} arrays, but {len(set(names))} different names")
    if reader.file.tell() != reader.size:
        raise ValueError("it has bytes after the last name")
    found = {name: stored for name, stored in zip(names, arrays) if wanted(name)}
    check_size({name: stored.shape for name, stored in found.items()})
    return {name: reader.values(stored) for name, stored in found.items()}
