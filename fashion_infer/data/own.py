"""Reads your own labelled dataset from IDX or NumPy files. Its images may have any size, and its labels any classes."""

import math
import os
import zipfile
import zlib
from pathlib import Path
from typing import IO, NamedTuple, Optional, Tuple

import numpy as np

from ..errors import DataError, UsageError
from ..system import inputs, paths
from ..system.paths import PathOrText
from ..system.text import one_line
from . import idx

# Names of a dataset's two files, (images, labels), in the order in which a folder is searched for them.
PAIRS = (
    ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),  # the names of MNIST's and Fashion-MNIST's files
    ("t10k-images.idx3-ubyte", "t10k-labels.idx1-ubyte"),
    ("images.npy", "labels.npy"),
    ("x_test.npy", "y_test.npy"),
)
# Names of the two arrays in one .npz file, (images, labels), in the order in which they are searched.
KEYS = (("images", "labels"), ("x_test", "y_test"), ("test_images", "test_labels"), ("x", "y"))
_NPY, _ZIP = b"\x93NUMPY", b"PK\x03\x04"
_DAMAGED = "make or copy it again"


class OwnDataset(NamedTuple):
    images: np.ndarray  # (n,1,s,s) uint8
    labels: np.ndarray  # (n,) int64, none negative
    location: str  # path of the file of images

    @property
    def classes(self) -> int:
        return int(self.labels.max()) + 1


def check(data_dir: Optional[PathOrText], images: Optional[PathOrText], labels: Optional[PathOrText]) -> None:
    if bool(images) != bool(labels):
        raise UsageError("your own dataset needs both --images FILE and --labels FILE")
    if bool(images) == bool(data_dir):
        raise UsageError("name your own dataset: a folder, --data-dir DIR, or --images FILE with --labels FILE")


def load(
    data_dir: Optional[PathOrText] = None, images: Optional[PathOrText] = None, labels: Optional[PathOrText] = None
) -> OwnDataset:
    """Read your own dataset from a folder with two files named as in `PAIRS` (also with .gz added) or one .npz file, or
    from two files: images of integers to 255, (n,s,s), (n,1,s,s) or (n,s,s,1); labels to 65535, (n,) or (n,1)."""
    check(data_dir, images, labels)
    files = (Path(images), Path(labels)) if images and labels else _find(paths.expanded(str(data_dir)))
    pixels = as_images(array(files[0], 0), files[0])
    classes = _labels(array(files[1], 1), files[1])
    if len(pixels) != len(classes):
        raise DataError(f"{files[0]} holds {len(pixels)} images, but {files[1]} holds {len(classes)} labels")
    if not len(pixels):
        raise DataError(f"{files[0]} holds no images")
    return OwnDataset(pixels, classes, str(files[0]))


def _find(folder: Path) -> Tuple[Path, Path]:
    for pair in PAIRS:
        for end in ("", ".gz"):
            files = tuple(folder / f"{name}{end}" for name in pair)
            if all(os.path.exists(file) for file in files):
                return files[0], files[1]
    try:
        archives = sorted(folder.glob("*.npz"))
    except OSError as error:
        raise DataError(f"cannot read {folder}: {error.strerror}") from None
    if len(archives) == 1:
        return archives[0], archives[0]
    known = ", ".join(" and ".join(pair) for pair in PAIRS)
    raise DataError(
        f"{folder} holds no dataset with known names ({known}, or one .npz): name its two files with "
        "--images and --labels"
    )


def array(path: Path, which: int = 0) -> np.ndarray:
    """Read the images (`which` = 0) or the labels (1) from a file, whose first bytes determine its format."""
    size = inputs.check(path)
    try:
        with open(path, "rb") as stream:
            beginning = stream.read(len(_NPY))
            stream.seek(0)
            if beginning == _NPY:
                return _npy(stream, path)
            if beginning.startswith(_ZIP):
                with zipfile.ZipFile(stream) as archive, archive.open(_member(archive, path, which)) as member:
                    return _npy(member, path)
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, ValueError) as error:
        raise DataError(f"{path} is not a complete NumPy array ({one_line(error)}): {_DAMAGED}") from None
    gzipped = beginning.startswith(idx.GZIP)
    if gzipped or beginning.startswith(b"\0\0"):
        magic, dimensions = ((idx.IMAGES_MAGIC, 3), (idx.LABELS_MAGIC, 1))[which]
        return idx.read_idx(path, magic, dimensions, gzipped, _DAMAGED)
    raise DataError(f"{path} is neither an IDX file nor a NumPy array" + ("" if size else ": it is empty"))


def _member(archive: zipfile.ZipFile, path: Path, which: int) -> str:
    """Return the name of the member with the images (`which` = 0) or labels (1): one of `KEYS`, or the only member."""
    names = archive.namelist()
    for pair in KEYS:
        if all(f"{key}.npy" in names for key in pair):
            return f"{pair[which]}.npy"
    if len(names) != 1:
        known = ", ".join(" and ".join(pair) for pair in KEYS)
        raise DataError(f"{path} does not hold two arrays with a pair of known names ({known})")
    return names[0]


def npy_header(stream: IO[bytes], path: Path) -> Tuple[Tuple[int, ...], bool, np.dtype]:
    """Return shape, Fortran order and dtype of a .npy header; DataError if invalid or not of integers or Booleans."""
    try:
        version = np.lib.format.read_magic(stream)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read(stream)
    except Exception as error:  # the header is a Python literal, and its parser may raise any error
        raise DataError(f"{path} is not a complete NumPy array ({one_line(error)}): {_DAMAGED}") from None
    if dtype.kind not in "uib":
        raise DataError(f"{path} holds {dtype}, not integers: 0 to 255 for pixels, classes for labels")
    if any(extent < 0 for extent in shape):
        raise DataError(f"{path} is not a complete NumPy array (its shape is {shape}): {_DAMAGED}")
    return shape, fortran, dtype


def _npy(stream: IO[bytes], path: Path) -> np.ndarray:
    shape, fortran, dtype = npy_header(stream, path)
    size = math.prod(shape) * dtype.itemsize
    return idx.content(stream, size, path, _DAMAGED).view(dtype).reshape(shape, order="F" if fortran else "C")


def as_images(array: np.ndarray, path: Path) -> np.ndarray:
    """Convert an array to images (n,1,s,s) uint8; DataError if its shape or its values are not those of images."""
    if array.ndim == 4 and array.shape[1] == 1:
        array = array[:, 0]
    elif array.ndim == 4 and array.shape[3] == 1:
        array = array[..., 0]
    if array.ndim != 3 or array.shape[1] != array.shape[2] or array.shape[1] < 2:
        raise DataError(f"{path} holds an array of shape {array.shape}, which is not (n, s, s): square grey images")
    if array.size and array.dtype != np.uint8 and (array.min() < 0 or array.max() > 255):
        raise DataError(f"{path} has pixels from {array.min()} to {array.max()}, not within 0 to 255")
    return np.ascontiguousarray(array, np.uint8)[:, None]


def _labels(array: np.ndarray, path: Path) -> np.ndarray:
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise DataError(f"{path} holds an array of shape {array.shape}, which is not (n,): one label per image")
    if array.size and (array.min() < 0 or array.max() > 65535):
        raise DataError(f"{path} has labels from {array.min()} to {array.max()}: classes are numbered from 0")
    return array.astype(np.int64)
