"""Resized images in the user's cache: every file carries a digest, and all of them together stay within a bound."""

import contextlib
import os
import re
import sys
import zlib
from pathlib import Path
from typing import List, Optional, Tuple

import numpy as np

from ..errors import DataError, UsageError
from ..system import inputs, paths
from ..system.files import replacing

BOUND = "FASHION_INFER_CACHE_MB"  # environment variable
DEFAULT_MB = 2000  # 10,000 images of every edition take 190 MB
_OURS = re.compile(r"[a-z-]+-\d+-[0-9a-f]{16}\.npy")
# CRC-32 finds what damages a file; whoever forges one has the user's account. Of fa2020's 10,000 images it takes 46 ms
# on a Sapphire Rapids core (SHA-1 90, BLAKE2b 114), reading them 34, and making them again 1.5 s.
_DIGEST_BYTES = 4


def folder() -> Optional[Path]:
    """Where the files lie; None for a user who has no cache."""
    own = paths.cache()
    return own and own / "resized"


def bound() -> int:
    """The most that all files may have together, in bytes; UsageError when the environment variable is no number."""
    given = os.environ.get(BOUND) or str(DEFAULT_MB)
    if not given.isdecimal():
        raise UsageError(f"{BOUND} must be a number of megabytes, not {given!r}")
    return int(given) * 10**6


def files() -> List[Tuple[Path, os.stat_result]]:
    """What is kept, least recently used first."""
    found, place = [], folder()
    with contextlib.suppress(OSError):
        for path in place.iterdir() if place else ():
            with contextlib.suppress(OSError):  # another process evicts too
                if _OURS.fullmatch(path.name) and path.is_file():
                    found.append((path, path.stat()))
    return sorted(found, key=lambda entry: entry[1].st_mtime_ns)


def get(name: str, shape: Tuple[int, ...]) -> Optional[np.ndarray]:
    """The uint8 array kept under a name; None when there is none, or only what is not what was kept.

    The file is read, and what was read is checked: a file that changes later changes nothing.
    """
    place = folder()
    if place is None:
        return None
    path = place / name
    try:
        inputs.check(path)
        content = np.fromfile(path, np.uint8)
        os.utime(path)  # used now: see `put`
    except (OSError, DataError):
        return None
    end = len(content) - _DIGEST_BYTES
    begin = end - int(np.prod(shape))
    if begin < 0 or _digest(content[:end]) != content[end:].tobytes():
        print(f"fashion-infer: {path} was damaged: it is made again", file=sys.stderr)
        return None
    return content[begin:end].reshape(shape)


def put(name: str, array: np.ndarray) -> None:
    """Keep a uint8 array, after evicting what was used least recently; nothing where there is no room for it.

    It is a .npy file with the digest of all that behind it, which NumPy does not read.
    """
    place, most = folder(), bound()
    if place is None or array.nbytes > most or (os.path.exists(place / name) and not (place / name).is_file()):
        return
    path = place / name
    kept = [entry for entry in files() if entry[0] != path]
    total = sum(status.st_size for _, status in kept) + array.nbytes + 200
    for old, status in kept:
        if total <= most:
            break
        with contextlib.suppress(OSError):
            old.unlink()
        total -= status.st_size
    with contextlib.suppress(OSError, DataError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path, DataError, durable=False) as temporary:
            with open(temporary, "wb") as stream:
                np.save(stream, array)
            digest = _digest(np.fromfile(temporary, np.uint8))
            with open(temporary, "ab") as stream:
                stream.write(digest)


def _digest(content: np.ndarray) -> bytes:
    return zlib.crc32(content.data).to_bytes(_DIGEST_BYTES, "little")
