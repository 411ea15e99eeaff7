"""Reads images from a column of a Parquet file: pixels as lists or bytes, or encoded pictures as Hugging Face has."""

import math
from typing import List, Optional

import numpy as np
import pyarrow
from pyarrow import types

from ..data import pictures
from ..errors import DataError

NAMES = ("image", "images", "pixels", "img", "x")
_PNG, _JPEG = b"\x89PNG\r\n\x1a\n", (b"\xff\xd8\xff", b"\xff\xd9")


def of_images(schema: pyarrow.Schema, name: str) -> str:
    """Return the name of the image column: the first of `NAMES` there, or the only one; DataError if unsuitable."""
    known = [column for column in NAMES if column in schema.names] or (schema.names if len(schema.names) == 1 else [])
    if not known:
        raise DataError(f"{name} has no column of images: name the column {' or '.join(NAMES)}")
    kind = _storage(schema.field(known[0]).type)
    if not (_is_binary(kind) or _is_list(kind) or (types.is_struct(kind) and kind.get_field_index("bytes") >= 0)):
        raise DataError(f"{name}: column {known[0]} must hold pixels or encoded pictures, but its type is {kind}")
    return known[0]


def decoded(array: pyarrow.Array, name: str, invert: Optional[bool]) -> np.ndarray:
    """Return the images of a piece of an image column, (n,1,s,s) uint8; DataError unless all are squares of one size.

    Lists of integers from 0 to 255, and bytes that are neither a PNG nor a JPEG file, are pixels. Encoded pictures (a
    struct's `bytes`, or plain bytes) are read as `predict` reads pictures.
    """
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


def _storage(kind: pyarrow.DataType) -> pyarrow.DataType:
    return kind.storage_type if isinstance(kind, pyarrow.BaseExtensionType) else kind


def _is_binary(kind: pyarrow.DataType) -> bool:
    return types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind)


def _is_list(kind: pyarrow.DataType) -> bool:
    return types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
