"""Finds the sources of a job's images, with the kind and number of images of each; reads columns of Parquet files."""

import hashlib
import math
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Iterable, List, Optional, Sequence, Tuple

import numpy as np
import pyarrow
from pyarrow import parquet, types

from ..data import idx, own, pictures, synthetic
from ..errors import DataError
from ..system.text import one_line
from . import places

# Suffixes of file names by kind. They are used for files in a folder that the user names. A file that the user names is
# recognised by its first bytes.
_SUFFIXES = {
    "parquet": (".parquet", ".pq"),
    "npy": (".npy",),
    "packed": (".npz", "idx3-ubyte.gz"),
    "idx": ("idx3-ubyte",),
    "picture": (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".webp"),
}
_KNOWN = "Parquet, .npy, .npz, IDX (idx3-ubyte, also .gz) and pictures"
_NAMES = ("image", "images", "pixels", "img", "x")  # names of columns of images, most likely first
_PNG, _JPEG = b"\x89PNG\r\n\x1a\n", (b"\xff\xd8\xff", b"\xff\xd9")


@dataclass(frozen=True)
class Source:
    kind: str  # "parquet", "npy", "idx", "packed" (compressed), "picture", "synthetic" or "held" (in memory)
    name: str  # name of the file for messages; "" if the source is not a file
    place: str  # absolute path or URI of the file; the digest of images in memory
    count: int  # number of images
    bytes: int  # approximate number of bytes of an image's pixels
    size: int  # size of the file in bytes
    modified: int  # date of the file, in nanoseconds since 1970; the seed of the built-in set


def drawn(count: int) -> Source:
    return Source("synthetic", "", "", count, synthetic.SIZE**2, 0, synthetic.SEED)


def held(images: np.ndarray) -> Source:
    return Source("held", "", hashlib.sha256(images.tobytes()).hexdigest(), len(images), images[0].size, 0, 0)


def of(names: Sequence[str]) -> List[Source]:
    """Return the sources of files, folders and patterns, in the order of the names; DataError if one has no images."""
    found: List[Source] = []
    for name in names:
        entries, named = places.files(name)
        before = len(found)
        for entry in entries:
            kind = _kind_by_content(entry) if named else _kind_by_suffix(entry.name)
            source = kind and _source(kind, entry, named)
            found += [source] if source and source.count else []
        if len(found) == before:
            raise DataError(f"{name} has no images: give files of these kinds: {_KNOWN}")
    return found


def digest(sources: Iterable[Source]) -> str:
    """Return a digest that identifies sources, made of their kinds, paths, sizes, dates and numbers of images."""
    summed = hashlib.sha256()
    for source in sources:
        summed.update(repr((source.kind, source.place, source.count, source.size, source.modified)).encode())
    return summed.hexdigest()


def _kind_by_suffix(name: str) -> Optional[str]:
    lowered = name.partition("?")[0].lower() if places.is_uri(name) else name.lower()
    return next((kind for kind, suffixes in _SUFFIXES.items() if lowered.endswith(suffixes)), None)


def _kind_by_content(entry: places.FileEntry) -> str:
    with stream_of(entry.place, entry.name) as stream:
        beginning = stream.read(8)
    if beginning.startswith(b"PAR1"):
        return "parquet"
    if beginning.startswith(b"\x93NUMPY"):
        return "npy"
    if beginning.startswith((b"PK\x03\x04", idx.GZIP)):
        return "packed"
    return "idx" if beginning.startswith(b"\0\0\x08") else "picture"


class stream_of:
    """A context with a stream of a file's bytes, in which errors of the filesystem and of PyArrow become DataErrors."""

    def __init__(self, place: str, name: str):
        self._place, self._name = place, name

    def __enter__(self) -> BinaryIO:
        try:
            system, path = places.filesystem(self._place)
            self._stream = system.open_input_file(path)
        except (OSError, pyarrow.ArrowException) as error:
            raise DataError(f"cannot read {self._name} ({one_line(error)})") from None
        return self._stream

    def __exit__(self, kind: object, error: Optional[BaseException], trace: object) -> None:
        self._stream.close()
        if isinstance(error, (OSError, pyarrow.ArrowException)):
            raise DataError(f"cannot read {self._name} ({one_line(error)})") from None


def _source(kind: str, entry: places.FileEntry, named: bool) -> Optional[Source]:
    if kind == "picture":
        count, size = 1, 28 * 28
    elif kind == "packed":
        if places.is_uri(entry.place):
            raise DataError(f"{entry.name} is an archive, and given as a URI: unpack it, or give a local path")
        path = Path(entry.place)
        images = own.as_images(own.array(path), path)
        count, size = len(images), images[0].size if len(images) else 1
    else:
        with stream_of(entry.place, entry.name) as stream:
            if kind == "parquet":
                metadata = parquet.ParquetFile(stream).metadata
                image_column(metadata.schema.to_arrow_schema(), entry.name)
                unpacked = sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))
                count, size = metadata.num_rows, -(-unpacked // max(1, metadata.num_rows))
            else:
                array = array_of(kind, stream, entry)
                if array is None:
                    if named:
                        raise DataError(f"{entry.name} has no square grey images, an array of shape (n, s, s)")
                    return None
                count, size = array.count, array.side**2 * array.dtype.itemsize
    return Source(kind, entry.name, entry.place, count, size, entry.size, entry.modified)


@dataclass(frozen=True)
class Array:
    count: int
    side: int  # pixels
    dtype: np.dtype
    begin: int  # number of bytes before the first image


def array_of(kind: str, stream: BinaryIO, entry: places.FileEntry) -> Optional[Array]:
    if kind == "npy":
        shape, fortran, dtype = own.npy_header(stream, Path(entry.name))
        if fortran and len(shape) > 1:
            raise DataError(f"{entry.name} is in Fortran's order: save it again with numpy.ascontiguousarray")
    else:
        shape, dtype = _idx_shape(stream.read(16)), np.dtype(np.uint8)
        fortran = False
    sides = shape[1:] if len(shape) == 3 else _sides(shape)
    if len(sides) != 2 or sides[0] != sides[1] or sides[0] < 2:
        return None
    begin = stream.tell()
    needed = begin + shape[0] * sides[0] ** 2 * dtype.itemsize
    if entry.size != needed:
        raise DataError(f"{entry.name} has {entry.size} bytes, but its header says {needed}: copy or make it again")
    return Array(shape[0], sides[0], dtype, begin)


def _sides(shape: Tuple[int, ...]) -> Tuple[int, ...]:
    if len(shape) == 4 and 1 in (shape[1], shape[3]):
        return shape[2:] if shape[1] == 1 else shape[1:3]
    return ()


def _idx_shape(header: bytes) -> Tuple[int, ...]:
    if len(header) < 16 or int.from_bytes(header[:4], "big") != idx.IMAGES_MAGIC:
        return ()
    return tuple(int.from_bytes(header[at : at + 4], "big") for at in (4, 8, 12))


def image_column(schema: pyarrow.Schema, name: str) -> str:
    known = [column for column in _NAMES if column in schema.names] or (schema.names if len(schema.names) == 1 else [])
    if not known:
        raise DataError(f"{name} has no column of images: name the column {' or '.join(_NAMES)}")
    kind = schema.field(known[0]).type
    kind = kind.storage_type if isinstance(kind, pyarrow.BaseExtensionType) else kind
    if not (_is_binary(kind) or _is_list(kind) or (types.is_struct(kind) and kind.get_field_index("bytes") >= 0)):
        raise DataError(f"{name}: column {known[0]} must hold pixels or encoded pictures, but its type is {kind}")
    return known[0]


def column_images(array: pyarrow.Array, name: str, invert: Optional[bool]) -> np.ndarray:
    if isinstance(array, pyarrow.ExtensionArray):
        array = array.storage
    if array.null_count:
        raise DataError(f"{name} has rows without an image")
    if types.is_struct(array.type):
        values = array.field("bytes").to_pylist()
        if None in values:
            raise DataError(f"{name} has rows with the path of a picture but not its bytes: embed the pictures' bytes")
        return np.stack([pictures.of_bytes(value, f"a picture in {name}", invert) for value in values])
    if _is_binary(array.type):
        return _of_bytes(array.to_pylist(), name, invert)
    rows = len(array)
    while _is_list(array.type):
        array = array.flatten()
        if array.null_count:
            raise DataError(f"{name} has rows with missing pixels")
    if not types.is_integer(array.type):
        raise DataError(f"{name} has pixels of type {array.type}: they must be whole numbers from 0 to 255")
    pixels = array.to_numpy(zero_copy_only=False)
    if len(pixels) and (pixels.min() < 0 or pixels.max() > 255):
        raise DataError(f"{name} has pixels from {pixels.min()} to {pixels.max()}: they must be from 0 to 255")
    return _squares(pixels.astype(np.uint8, copy=False), rows, name)


def _of_bytes(values: List[bytes], name: str, invert: Optional[bool]) -> np.ndarray:
    if any(value.startswith(_PNG) or (value.startswith(_JPEG[0]) and value.endswith(_JPEG[1])) for value in values):
        return np.stack([pictures.of_bytes(value, f"a picture in {name}", invert) for value in values])
    if len({len(value) for value in values}) > 1:
        raise DataError(f"{name} has images of different sizes that are neither PNG nor JPEG")
    return _squares(np.frombuffer(b"".join(values), np.uint8), len(values), name)


def _squares(pixels: np.ndarray, rows: int, name: str) -> np.ndarray:
    each = len(pixels) // rows
    side = math.isqrt(each)
    if len(pixels) % rows or side * side != each or side < 2:
        raise DataError(f"{name} has rows of about {each} pixels: all images must be squares of the same size")
    return pixels.reshape(rows, 1, side, side)


def _is_binary(kind: pyarrow.DataType) -> bool:
    return types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind)


def _is_list(kind: pyarrow.DataType) -> bool:
    return types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
