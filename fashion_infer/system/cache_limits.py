"""What the program keeps in the user's cache to save work: all of it together stays within a bound.

What was used least recently goes first. Files of other names in these folders are nobody's business here.
"""

import contextlib
import os
import re
import shutil
import tempfile
import time
from pathlib import Path
from typing import Iterator, List, NamedTuple, Optional, Pattern

import filelock

from ..errors import DeviceError, UsageError
from . import paths

BOUND = "FASHION_INFER_CACHE_MB"  # environment variable
DEFAULT_MB = 2000  # 10,000 images of every edition take 190 MB; a kernel 0.02 (CPU) to 1 (GPU)
_DAY = 86400


class Unwritable(DeviceError):
    """The cache cannot be written: this machine's trouble, and no submission's."""


class CacheKind(NamedTuple):
    """One sort of what is kept: the folder in the cache, the names in it, and how many seconds after its last use
    something stays, whatever the bound."""

    folder: str
    names: Pattern[str]
    seconds: float


class CacheEntry(NamedTuple):
    """A file, or a folder with all that is in it."""

    kind: CacheKind
    path: Path
    size: int  # bytes
    used: float  # seconds since the epoch


RESIZED = CacheKind("resized", re.compile(r"[a-z-]+-\d+-[0-9a-f]{16}\.npy"), 0)
# Built in one process and loaded in others: by a grade's workers for as long as grading a class takes.
KERNELS = CacheKind("kernels", re.compile(r"[0-9a-f]{32}\.so"), _DAY)
GRADED = CacheKind("graded", re.compile(r"[0-9a-f]{32}"), _DAY)
KINDS = (RESIZED, KERNELS, GRADED)
_TEMPORARY = re.compile(r"(build|stage|gone)-.*|.*\.lock")  # what processes work in, and their locks


def folder(kind: CacheKind) -> Optional[Path]:
    """Where a kind lies; None for a user who has no cache."""
    own = paths.cache()
    return own and own / kind.folder


def made_folder(kind: CacheKind) -> Path:
    """The same, made if need be.

    Raises
    ------
    DataError
        For a user who has no cache.
    Unwritable
        When it cannot be made.
    """
    place = paths.needed_cache() / kind.folder
    with writing(place):
        place.mkdir(parents=True, exist_ok=True)
    return place


@contextlib.contextmanager
def writing(place: Path) -> Iterator[None]:
    """For a block that writes into a folder of these: Unwritable, and what to do, where that fails."""
    try:
        yield
    except OSError as error:
        # A write into an open file has no name in its error; another name may be a folder's above, or somebody's file.
        names = [str(name) for name in (error.filename, error.filename2) if name is not None]
        if names and not any(name.startswith(str(place)) or str(place).startswith(name) for name in names):
            raise
        reason = error.strerror or error
        raise Unwritable(f"cannot write to {place}: {reason}: make room, or set XDG_CACHE_HOME to a folder") from None


def bound() -> int:
    """The most that everything may have together, in bytes; UsageError when the environment variable is no number."""
    given = os.environ.get(BOUND) or str(DEFAULT_MB)
    if not given.isdecimal():
        raise UsageError(f"{BOUND} must be a number of megabytes, not {given!r}")
    return int(given) * 10**6


def entries(kind: CacheKind) -> List[CacheEntry]:
    """What is kept of a kind, in no order."""
    found, place = [], folder(kind)
    with contextlib.suppress(OSError):
        for path in place.iterdir() if place else ():
            with contextlib.suppress(OSError):  # another process evicts too
                if kind.names.fullmatch(path.name) and (path.is_dir() if kind is GRADED else path.is_file()):
                    found.append(CacheEntry(kind, path, _size(path), path.stat().st_mtime))
    return found


def use(path: Path) -> None:
    """Note that something is used now."""
    with contextlib.suppress(OSError):
        os.utime(path)


def make_room(size: int, path: Path) -> None:
    """Evict what was used least recently until so many bytes have room under a path, as far as that goes."""
    kept = [entry for kind in KINDS for entry in entries(kind) if entry.path != path]
    total, most, now = sum(entry.size for entry in kept) + size, bound(), time.time()
    for entry in sorted(kept, key=lambda entry: entry.used):
        if total > most and now - entry.used >= entry.kind.seconds:
            with contextlib.suppress(OSError):  # it is being built (filelock.Timeout is one), or gone
                _evict(entry)
                total -= entry.size
    for place in filter(None, map(folder, KINDS)):
        with contextlib.suppress(OSError):
            for left in place.iterdir():
                if _TEMPORARY.fullmatch(left.name) and now - left.stat().st_mtime > _DAY:
                    left.unlink() if left.is_file() else shutil.rmtree(left, ignore_errors=True)


def lock(path: Path, timeout: float = -1) -> filelock.BaseFileLock:
    """The lock of the process that makes or removes a file: a context manager.

    Its file lies beside the file that it is for, and stays there; `make_room` removes it a day after its last use.
    """
    return filelock.FileLock(str(path.with_suffix(".lock")), timeout=timeout)


def _evict(entry: CacheEntry) -> None:
    if entry.kind is GRADED:  # gone at once, for who looks
        with tempfile.TemporaryDirectory(dir=entry.path.parent, prefix="gone-") as temporary:
            entry.path.rename(Path(temporary) / "it")
    elif entry.kind is KERNELS:
        with lock(entry.path, timeout=0):
            entry.path.unlink()
            entry.path.with_suffix(".log").unlink()
    else:
        entry.path.unlink()


def _size(path: Path) -> int:
    parts = [path] if path.is_file() else path.rglob("*")
    return sum(part.lstat().st_size for part in parts if not part.is_dir())
