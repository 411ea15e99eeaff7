"""Fashion-MNIST on disk: where it lies, what is in it, and the built-in set for a machine without it."""

import contextlib
import gzip
import hashlib
import os
import struct
import zlib
from pathlib import Path
from typing import List, NamedTuple, Optional, Tuple

import numpy as np

from ..errors import DataError, UsageError
from ..files import replacing
from ..resources import resource_dir
from . import synthetic
from .resize import resize

# File names and MD5 sums as published with the dataset.
FILES = {
    "test": ("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"),
    "train": ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"),
}
MD5 = {
    "t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
    "t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
    "train-images-idx3-ubyte.gz": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
    "train-labels-idx1-ubyte.gz": "25c81989df183df01b3e8a0aad5dffbe",
}
TEST_SIZE = 10_000
REAL, SYNTHETIC = "fashion-mnist", "synthetic"
_IMAGES_MAGIC, _LABELS_MAGIC = 2051, 2049  # two zero bytes, 8 for unsigned byte, the number of dimensions


class Images(NamedTuple):
    """Labelled test images and where they came from."""

    images: np.ndarray  # (n,1,28,28) uint8
    labels: np.ndarray  # (n,) uint8
    source: str  # "fashion-mnist" or "synthetic"
    location: str  # the folder, or "built in"


class Location(NamedTuple):
    """A folder where the dataset may lie."""

    what: str  # why it is on the list, for people
    path: Path
    explicit: bool  # the user named it: nothing else is searched, and what is wrong with it is an error


def cache_dir() -> Path:
    """The folder in the user's cache where downloads land (XDG_CACHE_HOME moves it)."""
    import pooch

    return Path(pooch.os_cache("fashion-infer")) / "fashion-mnist"


def locations(data_dir: Optional[str] = None) -> List[Location]:
    """Every folder that is searched, in order. A folder named by the user is the only one on the list."""
    if data_dir:
        return [Location("--data-dir", Path(data_dir).expanduser(), True)]
    if os.environ.get("FASHION_INFER_DATA"):
        return [Location("FASHION_INFER_DATA", Path(os.environ["FASHION_INFER_DATA"]).expanduser(), True)]
    home = Path.home()
    mxnet_home = Path(os.environ.get("MXNET_HOME", home / ".mxnet"))
    keras_home = Path(os.environ.get("KERAS_HOME", home / ".keras"))
    torch_home = Path(os.environ.get("TORCH_HOME", home / ".cache" / "torch"))
    raw = Path("FashionMNIST") / "raw"
    found = [
        ("the checkout", resource_dir("data") / "fashion-mnist"),
        ("the user's cache", cache_dir()),
        ("MXNet's datasets", mxnet_home / "datasets" / "fashion-mnist"),
        ("Keras's datasets", keras_home / "datasets" / "fashion-mnist"),
        ("torchvision, TORCH_HOME", torch_home / raw),
        ("torchvision, ./data", Path.cwd() / "data" / raw),
        ("torchvision, ~/data", home / "data" / raw),
    ]
    return [Location(what, path, False) for what, path in found]


def inspect(folder: Path, split: str = "test") -> Optional[str]:
    """What is wrong with the split's files in a folder.

    Returns
    -------
    str or None
        "missing", or a sentence naming the damaged file; None when both files are there and their MD5 sums are right.
    """
    if not all((folder / name).is_file() for name in FILES[split]):
        return "missing"
    for name in FILES[split]:
        try:
            digest = hashlib.md5((folder / name).read_bytes()).hexdigest()
        except OSError as error:
            return f"{folder / name} cannot be read ({error.strerror})"
        if digest != MD5[name]:
            return f"{folder / name} is damaged (MD5 {digest}, expected {MD5[name]})"
    return None


def find(data_dir: Optional[str] = None, split: str = "test") -> Optional[Path]:
    """The first folder that holds the split, whole and undamaged; None when there is none.

    Raises
    ------
    DataError
        When a folder that the user named lacks a file, or a file in it is damaged.
    """
    for location in locations(data_dir):
        trouble = inspect(location.path, split)
        if trouble is None:
            return location.path
        if location.explicit:
            if trouble == "missing":
                names = " and ".join(FILES[split])
                trouble = f"{location.path} does not hold {names}"
            raise DataError(
                f"{trouble}: give another folder with {location.what}, or fetch the dataset with "
                f"`fashion-infer data fetch --to {location.path}`"
            )
    return None


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
    found, *shape = struct.unpack(f">{1 + dimensions}I", content[:header])
    if found != magic:
        raise DataError(f"{path} is not the IDX file it should be (magic number {found}, expected {magic})")
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


def load_split(split: str = "test", data_dir: Optional[str] = None) -> Tuple[np.ndarray, np.ndarray]:
    """All images (n,1,28,28) and labels (n,) of "train" or "test", uint8; DataError when they are not found."""
    folder = find(data_dir, split)
    if folder is None:
        raise DataError(f"the {split} set of Fashion-MNIST is not on this machine: run `fashion-infer data fetch`")
    return read_pair(folder, split)


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
        The dataset's folder; None searches `locations()`, and downloads when nothing is found.
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
    folder = find(data_dir)
    if folder is None:
        from . import download

        try:
            folder = download.fetch(split="test")
        except DataError:
            if source == REAL:
                raise
            return _load_synthetic(n)
    images, labels = read_pair(folder)
    return Images(np.ascontiguousarray(images[:n]), labels[:n], REAL, str(folder))


def resized(images: Images, size: int) -> np.ndarray:
    """The images at another size, (n,1,size,size) uint8, as the course made them (see `resize`).

    All 10,000 take about a second and are kept in the user's cache; a cache that cannot be used costs that second.
    """
    if size == images.images.shape[-1]:
        return images.images
    key = hashlib.sha256(images.images.tobytes()).hexdigest()[:16]
    path = cache_dir().parent / "resized" / f"{images.source}-{size}-{key}.npy"
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
