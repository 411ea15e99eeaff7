"""Loads labelled test images: Fashion-MNIST, the built-in set for machines without it, or your own dataset."""

import hashlib
from typing import NamedTuple, Optional, Tuple

import numpy as np

from ..errors import DataError, UsageError
from ..system.paths import PathOrText
from . import idx, locate, own, synthetic
from .resize import cache, cached, resize

TEST_SIZE = 10_000
REAL, SYNTHETIC, OWN = "fashion-mnist", "synthetic", "own"


class Images(NamedTuple):
    images: np.ndarray  # (n,1,28,28) uint8; (n,1,s,s) in your own dataset
    labels: np.ndarray  # (n,) uint8; int64 in your own dataset
    source: str  # "fashion-mnist", "synthetic" or "own"
    location: str  # Fashion-MNIST's folder, "built in", or the path of your own dataset's file of images


def load_split(split: str = "test", data_dir: Optional[PathOrText] = None) -> Tuple[np.ndarray, np.ndarray]:
    """Return Fashion-MNIST's "train" or "test" set: images (n,1,28,28) and labels (n,), uint8. DataError if damaged."""
    folder = locate.find(data_dir, split)
    if folder is None:
        raise DataError(f"the {split} set of Fashion-MNIST is not on this machine: run `fashion-infer data fetch`")
    return idx.read_pair(folder, split)


def check_n(n: Optional[int], most: int = TEST_SIZE) -> None:
    if n is not None and not 1 <= n <= most:
        raise UsageError(f"n must be 1 to {most} images, not {n}")


def source_of(
    source: Optional[str], data_dir: Optional[PathOrText], images: Optional[PathOrText], labels: Optional[PathOrText]
) -> Optional[str]:
    """Return the source of images that the options select, None if they select none; UsageError for contradictions."""
    if source is None and (images or labels):
        source = OWN
    if source == OWN:
        own.check(data_dir, images, labels)
    elif images or labels:
        raise UsageError(f"--images and --labels are for your own dataset, not for {source}")
    return source


def load(
    n: Optional[int] = None,
    data_dir: Optional[PathOrText] = None,
    source: Optional[str] = None,
    images: Optional[PathOrText] = None,
    labels: Optional[PathOrText] = None,
) -> Images:
    """Load the first n test images, or all. If `source` is None, it is "own" with `images` and `labels`; otherwise
    "fashion-mnist", which is downloaded if no folder has it, or "synthetic" if the download fails."""
    source = source_of(source, data_dir, images, labels)
    if source == OWN:
        found = own.load(data_dir, images, labels)
        check_n(n, len(found.images))
        return Images(found.images[:n], found.labels[:n], OWN, found.location)
    check_n(n)
    if source == SYNTHETIC:
        return _load_synthetic(n)
    folder = locate.find(data_dir)
    if folder is None:
        try:
            folder = locate.fetch(split="test")
        except DataError:
            if source == REAL:
                raise
            return _load_synthetic(n)
    pixels, classes = idx.read_pair(folder)
    return Images(np.ascontiguousarray(pixels[:n]), classes[:n], REAL, str(folder))


def resized(images: Images, size: int) -> np.ndarray:
    """Return the images resized to (n,1,size,size) uint8; 10,000 or more, which take about a second, are cached."""
    if size == images.images.shape[-1]:
        return images.images
    if len(images.images) < TEST_SIZE:
        return resize(images.images, size)
    shape = (len(images.images), 1, size, size)
    # b"2" is the version of the cache's file format. The files of version 1 had no digest, and must not be found.
    key = hashlib.sha256(b"2" + repr(images.images.shape).encode() + images.images.tobytes()).hexdigest()[:16]
    name = f"{images.source}-{size}-{key}.npy"
    result = cached(name, shape)
    if result is None:
        result = resize(images.images, size)
        cache(name, result)
    return result


def _load_synthetic(n: Optional[int]) -> Images:
    images, labels = synthetic.load()
    return Images(images[:n], labels[:n], SYNTHETIC, "built in")
