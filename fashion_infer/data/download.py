"""Downloads, with pooch: verified, with a progress bar, and only what is not there yet.

A file appears under its name only when it is whole and verified, so running again goes on where it stopped.
"""

import hashlib
import logging
import os
from pathlib import Path
from typing import Callable, List, Optional, Sequence

from ..errors import DataError
from . import dataset

MIRRORS = (
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
)
# Seconds to connect, and to wait for the next bytes: a machine without a network should fall back soon.
TIMEOUT = (5, 30)


def mirrors() -> List[str]:
    """Base addresses of Fashion-MNIST, tried in turn; FASHION_INFER_MIRRORS, separated by blanks, replaces them."""
    return [m.rstrip("/") + "/" for m in os.environ.get("FASHION_INFER_MIRRORS", " ".join(MIRRORS)).split()]


def md5(path: Path) -> str:
    """The MD5 sum of a file, in hexadecimal."""
    return hashlib.md5(path.read_bytes()).hexdigest()


def git_blob(path: Path) -> str:
    """The id that Git gives a file's content: SHA-1 of "blob <size>", a zero byte, and the content."""
    content = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def fetch(to: Optional[str] = None, split: str = "test") -> Path:
    """Download the two files of Fashion-MNIST's "test" or "train" set, unless they are there already.

    Parameters
    ----------
    to
        The folder; None for the user's cache.

    Returns
    -------
    pathlib.Path
        The folder that holds the files.

    Raises
    ------
    DataError
        When no mirror delivers a file, or the folder cannot be written.
    """
    folder = Path(to).expanduser() if to else dataset.cache_dir()
    for name in dataset.FILES[split]:
        advice = "copy the four files of Fashion-MNIST to a folder and name it with --data-dir"
        fetch_file(folder / name, [mirror + name for mirror in mirrors()], md5, dataset.MD5[name], advice)
    return folder


def fetch_file(path: Path, addresses: Sequence[str], digest: Callable[[Path], str], expected: str, advice: str) -> None:
    """Download one file from the first address that delivers it, unless it is there with the right digest.

    Parameters
    ----------
    digest, expected
        A function from a file to its digest, and what that must be.
    advice
        What the user can do when no address delivers.

    Raises
    ------
    DataError
        When no address delivers the file, or it cannot be written.
    """
    import pooch
    import requests

    logging.getLogger("pooch").setLevel(logging.ERROR)  # the progress bar says enough
    pooch.get_logger().setLevel(logging.ERROR)
    reasons = []
    try:
        if path.is_file():
            if digest(path) == expected:
                return
            path.unlink()
        for address in addresses:
            try:
                download = _Download(digest, expected)
                pooch.retrieve(address, known_hash=None, fname=path.name, path=path.parent, downloader=download)
                return
            except requests.exceptions.RequestException as error:
                reasons.append(f"{address}: {_reason(error)}")
            except _WrongDigest as error:
                reasons.append(f"{address}: {error}")
    except OSError as error:
        raise DataError(
            f"cannot write {path} ({error.strerror or error}): make room, or choose a folder with "
            "`fashion-infer data fetch --to DIR`"
        ) from None
    raise DataError(f"could not download {path.name} ({'; '.join(reasons)}): check the network, or {advice}")


class _WrongDigest(Exception):
    pass


class _Download:
    """pooch's HTTP downloader, a bar that is closed whatever happens, and a check before the file gets its name."""

    def __init__(self, digest: Callable[[Path], str], expected: str):
        self.digest, self.expected = digest, expected

    def __call__(self, url: str, output_file: str, pup) -> None:
        import pooch
        from tqdm import tqdm

        # disable=None: only on a terminal. total: pooch sets the real one, and takes a bar without any for no bar.
        with tqdm(desc=url.rpartition("/")[2], total=1, unit="B", unit_scale=True, disable=None) as bar:
            pooch.HTTPDownloader(progressbar=bar, timeout=TIMEOUT)(url, output_file, pup)
        found = self.digest(Path(output_file))
        if found != self.expected:
            raise _WrongDigest(f"what came is damaged (digest {found}, expected {self.expected})")


def _reason(error: Exception) -> str:
    response = getattr(error, "response", None)
    if response is not None:
        return f"HTTP {response.status_code}"
    import requests

    # A stall within the body arrives as a ConnectionError that says so in its text alone.
    if isinstance(error, requests.exceptions.Timeout) or "timed out" in str(error):
        return "timed out"
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        return "connection broke"
    return "no connection"
