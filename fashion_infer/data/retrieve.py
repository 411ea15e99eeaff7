"""Downloads a file with pooch, unless it already exists, shows a progress bar, and verifies the file's digest.

`pooch.retrieve` has no size limit, tries only one address, and overwrites a user's file of the same name.
"""

import hashlib
import logging
import os
import time
from pathlib import Path
from typing import BinaryIO, Callable, Sequence

from ..errors import DataError, FashionInferError
from ..system.files import folder_made, replacing

# Time limits in seconds for connecting, and for waiting for the next bytes. They are short, because without a network
# the built-in set is used only after they have passed.
TIMEOUT = (5, 30)
LONGEST = 900.0  # time limit in seconds for downloading a file from one address


def md5(path: Path) -> str:
    import pooch

    return pooch.file_hash(str(path), alg="md5")


def git_blob(path: Path) -> str:
    """Return a file's Git blob id, in hexadecimal: the SHA-1 of "blob SIZE", a zero byte and the content."""
    content = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def fetch_file(
    path: Path,
    addresses: Sequence[str],
    digest: Callable[[Path], str],
    expected: str,
    advice: str,
    most: int,
    ours: bool = True,
) -> None:
    if os.path.lexists(path) and _is_there(path, digest, expected, most, ours):
        return
    reasons = []
    try:
        with folder_made(path.parent):
            for address in addresses:
                try:
                    with replacing(path, _Unwritable) as temporary:
                        _download(address, temporary, most)
                        found = digest(Path(temporary))
                        if found != expected and path.suffix == ".gz" and _unpacked(temporary):
                            raise _Undelivered("the server or a proxy sent it unpacked (Content-Encoding: gzip)")
                        if found != expected:
                            raise _Undelivered(f"the download is damaged (digest {found}, expected {expected})")
                    return
                except _Undelivered as error:
                    reasons.append(f"{address}: {error}")
    except (OSError, _Unwritable) as error:
        said = str(error) if isinstance(error, _Unwritable) else f"cannot write {path}: {error.strerror or error}"
        raise DataError(f"{said}: make room, or choose a folder with `fashion-infer data fetch --to DIR`") from None
    raise DataError(f"could not download {path.name} ({'; '.join(reasons)}): check the network, or {advice}")


def _is_there(path: Path, digest: Callable[[Path], str], expected: str, most: int, ours: bool) -> bool:
    elsewhere = "move it away, or choose another folder with `fashion-infer data fetch --to DIR`"
    if os.path.exists(path) and not path.is_file():
        raise DataError(f"{path} is not a regular file: {elsewhere}")
    if path.is_file() and path.stat().st_size <= most and digest(path) == expected:
        return True
    if not ours:
        raise DataError(f"{path} exists with other content, and is not overwritten: {elsewhere}")
    return False


def _unpacked(file: str) -> bool:
    with open(file, "rb") as stream:
        return stream.read(2) == b"\0\0"


class _Undelivered(Exception):
    """Raised when an address did not deliver the file. The next address is then tried."""


class _Unwritable(FashionInferError):
    pass


class _Bounded:
    """A file for writing that raises _Undelivered after `most` bytes or `LONGEST` seconds."""

    def __init__(self, stream: BinaryIO, most: int):
        self.stream, self.most, self.end = stream, most, time.monotonic() + LONGEST

    def write(self, chunk: bytes) -> None:
        self.most -= len(chunk)
        if self.most < 0:
            raise _Undelivered("it sends more than the size limit of the file")
        if time.monotonic() > self.end:
            raise _Undelivered(f"it did not finish within {LONGEST:.0f} s")
        self.stream.write(chunk)

    def flush(self) -> None:
        """Do nothing, because pooch calls this after each kilobyte, which would be slow."""


def _download(address: str, path: str, most: int) -> None:
    import http.client

    import pooch
    import requests
    from tqdm import tqdm

    logging.getLogger("pooch").setLevel(logging.ERROR)  # hide pooch's messages: the progress bar says enough
    pooch.get_logger().setLevel(logging.ERROR)
    try:
        # disable=None shows the bar only on a terminal. total=1 is needed, because pooch converts the bar to a Boolean,
        # which fails for a bar without a total; pooch sets the actual total later.
        bar = tqdm(desc=address.rpartition("/")[2], total=1, unit="B", unit_scale=True, disable=None)
        with bar, open(path, "wb") as stream:
            pooch.HTTPDownloader(progressbar=bar, timeout=TIMEOUT)(address, _Bounded(stream, most), None)
    except requests.exceptions.RequestException as error:
        raise _Undelivered(_reason(error)) from None
    except OSError as error:
        if "CA certificate" not in str(error):
            raise
        raise _Undelivered(f"{error}: set REQUESTS_CA_BUNDLE to a file of certificates, or unset it") from None
    except (ValueError, ArithmeticError, http.client.HTTPException):
        raise _Undelivered("its response is damaged") from None


def _reason(error: Exception) -> str:
    response = getattr(error, "response", None)
    if response is not None:
        return f"HTTP {response.status_code}"
    import requests

    # A timeout while the content arrives is a ConnectionError, which differs from others only in its text.
    if isinstance(error, requests.exceptions.Timeout) or "timed out" in str(error):
        return "timed out"
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        return "the connection broke"
    if isinstance(error, requests.exceptions.SSLError):
        return "its TLS certificate is not trusted: check the clock; behind a proxy, set REQUESTS_CA_BUNDLE"
    if isinstance(error, requests.exceptions.InvalidSchema):
        return " ".join(str(error).split())  # says that the package for SOCKS proxies is missing
    if isinstance(error, requests.exceptions.ProxyError):
        return "the proxy that HTTP_PROXY or HTTPS_PROXY names does not connect"
    return "no connection"
