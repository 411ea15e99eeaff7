"""Labelled test images: Fashion-MNIST, and the built-in set for a machine without it."""

import contextlib
import hashlib
from typing import NamedTuple, Optional, Tuple

import numpy as np

from .. import paths
from ..errors import DataError, UsageError
from ..files import replacing
from . import download, idx, locate, synthetic
from .resize import resize

TEST_SIZE = 10_000
REAL, SYNTHETIC = "fashion-mnist", "synthetic"


class Images(NamedTuple):
    """Labelled test images and where they came from."""

    images: np.ndarray  # (n,1,28,28) uint8
    labels: np.ndarray  # (n,) uint8
    source: str  # "fashion-mnist" or "synthetic"
    location: str  # the folder, or "built in"


def load_split(split: str = "test", data_dir: Optional[str] = None) -> Tuple[np.ndarray, np.ndarray]:
    """All images (n,1,28,28) and labels (n,) of "train" or "test", uint8; DataError when they are not found."""
    folder = locate.find(data_dir, split)
    if folder is None:
        raise DataError(f"the {split} set of Fashion-MNIST is not on this machine: run `fashion-infer data fetch`")
    return idx.read_pair(folder, split)


def check_n(n: int) -> None:
    """Raise UsageError unless n is a number of test images."""
    if not 1 <= n <= TEST_SIZE:
        raise UsageError(f"n must be 1 to {TEST_SIZE} images, not {n}")


def load(n: int = TEST_SIZE, data_dir: Optional[str] = None, source: Optional[str] = None) -> Images:
    """The first n test images.

    Parameters
    ----------
    n
        1 to 10,000.
    data_dir
        The dataset's folder; None searches `locate.locations()`, and downloads when nothing is found.
    source
        "fashion-mnist", "synthetic" for the built-in set, or None: the real set, and the built-in one only when the
        real one is neither present nor to be had (the result's `source` says which).

    Raises
    ------
    UsageError
        For an n out of range.
    DataError
        When the set asked for is missing or damaged.
    """
    check_n(n)
    if source == SYNTHETIC:
        return _load_synthetic(n)
    folder = locate.find(data_dir)
    if folder is None:
        try:
            folder = download.fetch(split="test")
        except DataError:
            if source == REAL:
                raise
            return _load_synthetic(n)
    images, labels = idx.read_pair(folder)
    return Images(np.ascontiguousarray(images[:n]), labels[:n], REAL, str(folder))


def resized(images: Images, size: int) -> np.ndarray:
    """The images at another size, (n,1,size,size) uint8, as the course made them (see `resize`).

    All 10,000 take about a second and are kept in the user's cache; a cache that cannot be used costs that second.
    """
    if size == images.images.shape[-1]:
        return images.images
    key = hashlib.sha256(images.images.tobytes()).hexdigest()[:16]
    cache = paths.cache()
    if cache is None:  # a user without a home
        return resize(images.images, size)
    path = cache / "resized" / f"{images.source}-{size}-{key}.npy"
    with contextlib.suppress(OSError, ValueError):
        kept = np.load(path, allow_pickle=False)
        if kept.shape == (len(images.images), 1, size, size) and kept.dtype == np.uint8:
            return kept
    result = resize(images.images, size)
    if len(result) == TEST_SIZE:
        with contextlib.suppress(OSError, DataError):
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path, DataError) as temporary, open(temporary, "wb") as stream:
                np.save(stream, result)
    return result


def _load_synthetic(n: int) -> Images:
    images, labels = synthetic.load()
    return Images(images[:n], labels[:n], SYNTHETIC, "built in")
