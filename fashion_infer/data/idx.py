"""Read the dataset's files: gzipped IDX, every header checked before it is believed."""

import gzip
import struct
import zlib
from pathlib import Path
from typing import Tuple

import numpy as np

from ..errors import DataError
from .locate import FILES

_IMAGES_MAGIC, _LABELS_MAGIC = 2051, 2049  # two zero bytes, 8 for unsigned byte, the number of dimensions


def read_idx(path: Path, magic: int, dimensions: int) -> np.ndarray:
    """Read a gzipped IDX file of unsigned bytes.

    Parameters
    ----------
    path
        The .gz file.
    magic, dimensions
        What its header must say: the magic number, and how many dimension sizes follow it (big-endian uint32 all).

    Returns
    -------
    numpy.ndarray
        uint8, in the shape that the header gives.

    Raises
    ------
    DataError
        When the file is missing, is not whole gzip data, or holds more or less than its header says.
    """
    try:
        with gzip.open(path, "rb") as stream:
            content = stream.read()
    except FileNotFoundError:
        raise DataError(f"{path} is missing: fetch the dataset with `fashion-infer data fetch`") from None
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} is not a whole gzip file ({error}): delete it and fetch it again") from None
    header = 4 + 4 * dimensions
    if len(content) < header:
        raise DataError(f"{path} ends within its header: delete it and fetch it again")
    number, *shape = struct.unpack(f">{1 + dimensions}I", content[:header])
    if number != magic:
        raise DataError(f"{path} is not the IDX file it should be (magic number {number}, expected {magic})")
    size = int(np.prod(shape, dtype=np.float64))
    if len(content) - header != size:
        raise DataError(f"{path} holds {len(content) - header} bytes where its header says {size}: fetch it again")
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)


def read_pair(folder: Path, split: str = "test") -> Tuple[np.ndarray, np.ndarray]:
    """The split's images (n,1,28,28) and labels (n,), uint8, from a folder's two files.

    Raises
    ------
    DataError
        When a file is damaged, or the two do not belong together.
    """
    images_name, labels_name = FILES[split]
    images = read_idx(folder / images_name, _IMAGES_MAGIC, 3)
    labels = read_idx(folder / labels_name, _LABELS_MAGIC, 1)
    if images.shape[1:] != (28, 28):
        raise DataError(f"{folder / images_name} holds images of {images.shape[1:]}, not (28, 28)")
    if len(images) != len(labels):
        raise DataError(f"{folder} holds {len(images)} images but {len(labels)} labels: fetch the dataset again")
    if labels.size and labels.max() > 9:
        raise DataError(f"{folder / labels_name} has a label above 9: fetch it again")
    return images[:, None], labels
