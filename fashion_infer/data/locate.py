"""Searches folders for the files of Fashion-MNIST (Zalando SE, MIT licence), checks their MD5 sums, downloads them."""

import hashlib
import os
from pathlib import Path
from typing import List, NamedTuple, Optional

from ..errors import DataError
from ..system import inputs, paths
from ..system.installation import resource_dir
from ..system.paths import PathOrText
from . import retrieve

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
# MD5 sum and size in bytes of each unpacked file.
UNPACKED = {
    "t10k-images-idx3-ubyte": ("8181f5470baa50b63fa0f6fddb340f0a", 7_840_016),
    "t10k-labels-idx1-ubyte": ("15d484375f8d13e6eb1aabb0c3f46965", 10_008),
    "train-images-idx3-ubyte": ("f4a8712d7a061bf5bd6d2ca38dc4d50a", 47_040_016),
    "train-labels-idx1-ubyte": ("9018921c3c673c538a1fc5bad174d6f9", 60_008),
}
# Size limit of each packed file in bytes, a little above its size. A larger file is neither read nor downloaded.
MOST = {
    "t10k-images-idx3-ubyte.gz": 4_422_102 + 4096,
    "t10k-labels-idx1-ubyte.gz": 5_148 + 4096,
    "train-images-idx3-ubyte.gz": 26_421_880 + 4096,
    "train-labels-idx1-ubyte.gz": 29_515 + 4096,
}
MIRRORS = (
    "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
)


class Location(NamedTuple):
    what: str  # description of the folder for messages
    path: Path
    explicit: bool  # whether the user named the folder, so that missing or damaged files in it are an error


def locations(data_dir: Optional[PathOrText] = None) -> List[Location]:
    """Return the folders to search, in order. A folder that the user named is searched alone."""
    if data_dir:
        return [Location("--data-dir", paths.expanded(data_dir), True)]
    if os.environ.get("FASHION_INFER_DATA"):
        return [Location("FASHION_INFER_DATA", paths.expanded(os.environ["FASHION_INFER_DATA"]), True)]
    folders = [("the checkout", resource_dir("data")), ("the user's cache", paths.cache())]
    return [Location(what, folder / "fashion-mnist", False) for what, folder in folders if folder is not None]


def inspect(folder: Path, split: str = "test") -> Optional[str]:
    """Return "missing" if a folder lacks a file of the set, a sentence about a damaged file, or None."""
    files = [file_of(folder, name) for name in FILES[split]]
    if not all(file.is_file() for file in files):
        return "missing"
    for file in files:
        expected, most = UNPACKED[file.name] if file.name in UNPACKED else (MD5[file.name], MOST[file.name])
        try:
            # pooch.file_hash is not used, because it reads files of any size.
            digest = hashlib.md5(inputs.read(file, most)).hexdigest()
        except DataError as error:
            return str(error)
        if digest != expected:
            return f"{file} is damaged (MD5 {digest}, expected {expected})"
    return None


def file_of(folder: Path, name: str) -> Path:
    packed, unpacked = folder / name, folder / name[: -len(".gz")]
    return unpacked if unpacked.is_file() and not os.path.lexists(packed) else packed


def find(data_dir: Optional[PathOrText] = None, split: str = "test") -> Optional[Path]:
    for location in locations(data_dir):
        trouble = inspect(location.path, split)
        if trouble is None:
            return location.path
        if location.explicit:
            if trouble == "missing":
                names = " and ".join(FILES[split])
                trouble = f"{location.path} does not hold {names}"
            raise DataError(
                f"{trouble}: give another folder with {location.what}, or download the dataset to a new folder with "
                f"`fashion-infer data fetch --to DIR`; for your own dataset add --data own --data-dir "
                f"{location.path}"
            )
    return None


def mirrors() -> List[str]:
    return [m.rstrip("/") + "/" for m in os.environ.get("FASHION_INFER_MIRRORS", " ".join(MIRRORS)).split()]


def fetch(to: Optional[str] = None, split: str = "test") -> Path:
    """Download Fashion-MNIST's "test" or "train" set, unless the folder has it; files of the user are never changed."""
    folder = paths.expanded(to) if to else paths.needed_cache() / "fashion-mnist"
    for name in FILES[split]:
        advice = "copy the four files of Fashion-MNIST to a folder and name that folder with --data-dir"
        addresses = [mirror + name for mirror in mirrors()]
        retrieve.fetch_file(folder / name, addresses, retrieve.md5, MD5[name], advice, MOST[name], not to)
    return folder
