"""Reads IDX files, gzipped or not. Every header is checked, and a file with more data than its header says is refused.

Libraries' readers unpack all data that follows a header, so that a small gzip file could fill the memory.
"""

import gzip
import math
import struct
import zlib
from pathlib import Path
from typing import IO, Any, Tuple

import numpy as np

from ..errors import DataError
from ..system import inputs
from .locate import FILES, file_of

IMAGES_MAGIC, LABELS_MAGIC = 2051, 2049  # 0x0803, 0x0801: 8 means unsigned bytes; 3 and 1 are the numbers of dimensions
MOST = 512 << 20  # size limit in bytes of a file's unpacked data; 684,000 images of 28x28 pixels fit
GZIP = b"\x1f\x8b"
_AGAIN = "delete it and fetch it again"
_PART = 1 << 20  # number of bytes read at a time


def read_idx(path: Path, magic: int, dimensions: int, gzipped: bool = True, advice: str = _AGAIN) -> np.ndarray:
    if not Path(path).exists():
        raise DataError(f"{path} is missing: fetch the dataset with `fashion-infer data fetch`")
    inputs.check(path)
    try:
        with (gzip.open if gzipped else open)(path, "rb") as stream:
            return _read(stream, path, magic, dimensions, advice)
    except (OSError, EOFError, zlib.error) as error:
        kind = "is not a complete gzip file" if gzipped else "cannot be read"
        raise DataError(f"{path} {kind} ({error}): {advice}") from None


def _read(stream: Any, path: Path, magic: int, dimensions: int, advice: str) -> np.ndarray:
    header = stream.read(4 + 4 * dimensions)
    number = int.from_bytes(header[:4], "big")
    if len(header) >= 4 and number != magic:
        raise DataError(f"{path} is not the expected IDX file: its magic number is {number}, not {magic}")
    if len(header) < 4 + 4 * dimensions:
        raise DataError(f"{path} ends before the end of its header: {advice}")
    shape = struct.unpack(f">{dimensions}I", header[4:])
    size = math.prod(shape)
    return content(stream, size, path, advice).reshape(shape)


def content(stream: IO[bytes], size: int, path: Path, advice: str) -> np.ndarray:
    """Read the rest of a stream as (size,) uint8; DataError unless it has exactly `size` bytes, at most `MOST`."""
    if size > MOST:
        raise DataError(f"{path}: its header says {size:,} bytes of data, more than the limit of {MOST:,}: {advice}")
    found, end = np.empty(size, np.uint8), 0
    while end < size:
        part = stream.read(min(_PART, size - end))
        if not part:
            break
        found[end : end + len(part)] = np.frombuffer(part, np.uint8)
        end += len(part)
    end += len(stream.read(_PART))  # data beyond the expected end
    if end != size:
        more = "at least " if end == size + _PART else ""
        raise DataError(f"{path} has {more}{end} bytes of data, but its header says {size}: {advice}")
    return found


def read_pair(folder: Path, split: str = "test") -> Tuple[np.ndarray, np.ndarray]:
    """Return Fashion-MNIST's "test" or "train" set in a folder: images (n,1,28,28) and labels (n,), uint8."""
    images_file, labels_file = (file_of(folder, name) for name in FILES[split])
    images = read_idx(images_file, IMAGES_MAGIC, 3, images_file.suffix == ".gz")
    labels = read_idx(labels_file, LABELS_MAGIC, 1, labels_file.suffix == ".gz")
    if images.shape[1:] != (28, 28):
        raise DataError(f"{images_file} holds images of shape {images.shape[1:]}, not (28, 28)")
    if len(images) != len(labels):
        raise DataError(f"{folder} holds {len(images)} images but {len(labels)} labels: fetch the dataset again")
    if labels.size and labels.max() > 9:
        raise DataError(f"{labels_file} has a label above 9: fetch it again")
    return images[:, None], labels
