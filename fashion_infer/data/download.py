"""Downloads Fashion-MNIST (Zalando SE, MIT licence) from its mirrors."""

import os
from pathlib import Path
from typing import List, Optional

from ..system import paths
from . import locate, retrieve

MIRRORS = (
    "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
)


def mirrors() -> List[str]:
    """Return the base addresses of Fashion-MNIST, which are tried in turn.

    The environment variable FASHION_INFER_MIRRORS (blank-separated) replaces them.
    """
    return [m.rstrip("/") + "/" for m in os.environ.get("FASHION_INFER_MIRRORS", " ".join(MIRRORS)).split()]


def fetch(to: Optional[str] = None, split: str = "test") -> Path:
    """Download the two files of Fashion-MNIST's "test" or "train" set, unless they are already there.

    Parameters
    ----------
    to
        The folder to download into, whose other files are never touched. None for the user's cache.

    Returns
    -------
    pathlib.Path
        The folder with the files.

    Raises
    ------
    DataError
        When no mirror delivers a file, the folder cannot be written, or it has another file with one of the names.
    """
    folder = paths.expanded(to) if to else locate.cache_dir()
    for name in locate.FILES[split]:
        advice = "copy the four files of Fashion-MNIST to a folder and name it with --data-dir"
        addresses = [mirror + name for mirror in mirrors()]
        retrieve.fetch_file(folder / name, addresses, retrieve.md5, locate.MD5[name], advice, locate.MOST[name], not to)
    return folder
