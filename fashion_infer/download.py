"""Fetch Fashion-MNIST from its public homes, with pooch: hashes, progress bar, and only what is not there yet."""

import logging
import os
from pathlib import Path
from typing import List, Optional

from . import dataset
from .errors import DataError

MIRRORS = (
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
)
# Seconds to connect, and to wait for the next bytes: a machine without a network should fall back soon.
TIMEOUT = (5, 30)


def mirrors() -> List[str]:
    """Base addresses tried in turn; FASHION_INFER_MIRRORS, separated by blanks, replaces them."""
    return [m.rstrip("/") + "/" for m in os.environ.get("FASHION_INFER_MIRRORS", " ".join(MIRRORS)).split()]


def fetch(to: Optional[str] = None, split: str = "test") -> Path:
    """Download the two files of "test" or "train", unless they are there already, and verify their MD5 sums.

    A file appears under its name only when it is whole and verified, so running again goes on where it stopped.

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
        _fetch_file(name, folder)
    return folder


def _fetch_file(name: str, folder: Path) -> None:
    import pooch
    import requests

    logging.getLogger("pooch").setLevel(logging.ERROR)  # the progress bar says enough
    pooch.get_logger().setLevel(logging.ERROR)
    reasons = []
    for mirror in mirrors():
        try:
            pooch.retrieve(
                mirror + name,
                known_hash="md5:" + dataset.MD5[name],
                fname=name,
                path=folder,
                downloader=_download,
            )
            return
        except requests.exceptions.RequestException as error:
            reasons.append(f"{mirror}: {_reason(error)}")
        except ValueError as error:  # pooch: the hash differs
            reasons.append(f"{mirror}: {'wrong MD5' if 'hash' in str(error) else error}")
        except OSError as error:
            raise DataError(
                f"cannot write {folder / name} ({error.strerror or error}): make room, or choose a folder with "
                "`fashion-infer data fetch --to DIR`"
            ) from None
    raise DataError(
        f"could not download {name} ({'; '.join(reasons)}): check the network, or copy the four files of "
        "Fashion-MNIST to a folder and name it with --data-dir"
    )


def _download(url: str, output_file: str, pup) -> None:
    """pooch's downloader with a bar that is closed whatever happens, so that a message after it has its own line."""
    import pooch
    from tqdm import tqdm

    name = url.rpartition("/")[2]
    # disable=None: only on a terminal. total: pooch sets the real one, and takes a bar without any for no bar.
    with tqdm(desc=name, total=1, unit="B", unit_scale=True, disable=None) as bar:
        pooch.HTTPDownloader(progressbar=bar, timeout=TIMEOUT)(url, output_file, pup)


def _reason(error: Exception) -> str:
    response = getattr(error, "response", None)
    if response is not None:
        return f"HTTP {response.status_code}"
    import requests

    if isinstance(error, requests.exceptions.Timeout):
        return "timed out"
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        return "connection broke"
    return "no connection"
