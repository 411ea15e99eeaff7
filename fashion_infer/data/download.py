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
    """Return the URLs of Fashion-MNIST's folders, which are tried in order; FASHION_INFER_MIRRORS sets them."""
    return [m.rstrip("/") + "/" for m in os.environ.get("FASHION_INFER_MIRRORS", " ".join(MIRRORS)).split()]


def fetch(to: Optional[str] = None, split: str = "test") -> Path:
    """Download Fashion-MNIST's "test" or "train" set, unless the folder already has it, and return the folder.

    Files in a folder `to` are never changed: DataError for a different file of the same name.
    """
    folder = paths.expanded(to) if to else paths.needed_cache() / "fashion-mnist"
    for name in locate.FILES[split]:
        advice = "copy the four files of Fashion-MNIST to a folder and name that folder with --data-dir"
        addresses = [mirror + name for mirror in mirrors()]
        retrieve.fetch_file(folder / name, addresses, retrieve.md5, locate.MD5[name], advice, locate.MOST[name], not to)
    return folder
