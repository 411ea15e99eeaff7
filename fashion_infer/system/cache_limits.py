"""Size limit for entries in the user's cache: resized images, built kernels, and what has been graded.

The least recently used entries are evicted first. Files with other names are not counted, and not evicted.
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
DEFAULT_MB = 2000  # 10,000 images resized for each edition take 190 MB, a kernel 0.02 MB (CPU) to 1 MB (GPU)
_DAY = 86400


class Unwritable(DeviceError):
    """Raised if the cache cannot be written. The machine causes this error, never a submission."""


class CacheKind(NamedTuple):
    folder: str  # name of the folder in the cache
    names: Pattern[str]  # names of the entries
    seconds: float  # time since its last use for which an entry is not evicted, even above the limit


class CacheEntry(NamedTuple):
    kind: CacheKind
    path: Path
    size: int  # bytes
    used: float  # time of the last use, in seconds since 1970


RESIZED = CacheKind("resized", re.compile(r"[a-z-]+-\d+-[0-9a-f]{16}\.npy"), 0)
# A kernel is kept for an hour, because one process builds it and others load it later.
KERNELS = CacheKind("kernels", re.compile(r"[0-9a-f]{32}\.so"), 3600)
# Submissions and their builds are temporary folders. Versions before 0.3 left entries with these names.
GRADED = CacheKind("graded", re.compile(r"[0-9a-f]{32}"), 0)
KINDS = (RESIZED, KERNELS, GRADED)
_TEMPORARY = re.compile(r"(build|stage|gone)-.*|.*\.lock")  # folders in which a process works, and lock files


def folder(kind: CacheKind) -> Optional[Path]:
    """Return the folder of a kind; None for a user without a cache."""
    own = paths.cache()
    return own and own / kind.folder


def made_folder(kind: CacheKind) -> Path:
    """Return the folder of a kind; create it if it is missing. DataError for a user without a cache."""
    place = paths.needed_cache() / kind.folder
    with writing(place):
        place.mkdir(parents=True, exist_ok=True)
    return place


@contextlib.contextmanager
def writing(place: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        # A failed write to an open file gives an error without a file name. If the error has a name that is neither in
        # `place` nor a parent of it, it is not about the cache.
        names = [str(name) for name in (error.filename, error.filename2) if name is not None]
        if names and not any(name.startswith(str(place)) or str(place).startswith(name) for name in names):
            raise
        reason = error.strerror or error
        raise Unwritable(f"cannot write to {place}: {reason}: make room, or set XDG_CACHE_HOME to a folder") from None


def bound() -> int:
    given = os.environ.get(BOUND) or str(DEFAULT_MB)
    if not given.isdecimal():
        raise UsageError(f"{BOUND} must be a number of megabytes, not {given!r}")
    return int(given) * 10**6


def entries(kind: CacheKind) -> List[CacheEntry]:
    found, place = [], folder(kind)
    with contextlib.suppress(OSError):
        for path in place.iterdir() if place else ():
            with contextlib.suppress(OSError):  # another process may evict entries now
                if kind.names.fullmatch(path.name) and (path.is_dir() if kind is GRADED else path.is_file()):
                    found.append(CacheEntry(kind, path, _size(path), path.stat().st_mtime))
    return found


def use(path: Path) -> None:
    with contextlib.suppress(OSError):
        os.utime(path)


def make_room(size: int, path: Path) -> None:
    """Evict the least recently used entries until an entry of `size` bytes at `path` fits within the limit."""
    kept = [entry for kind in KINDS for entry in entries(kind) if entry.path != path]
    total, most, now = sum(entry.size for entry in kept) + size, bound(), time.time()
    for entry in sorted(kept, key=lambda entry: entry.used):
        if total > most and now - entry.used >= entry.kind.seconds:
            # Ignore an entry that a process builds now (filelock.Timeout is an OSError), or that is gone.
            with contextlib.suppress(OSError):
                _evict(entry)
                total -= entry.size
    for place in filter(None, map(folder, KINDS)):
        with contextlib.suppress(OSError):
            for left in place.iterdir():
                if _TEMPORARY.fullmatch(left.name) and now - left.stat().st_mtime > _DAY:
                    left.unlink() if left.is_file() else shutil.rmtree(left, ignore_errors=True)


def lock(path: Path, timeout: float = -1) -> filelock.BaseFileLock:
    """Return a lock for creating or removing a file, as a context manager. The lock file next to it stays for a day."""
    return filelock.FileLock(str(path.with_suffix(".lock")), timeout=timeout)


def _evict(entry: CacheEntry) -> None:
    if entry.kind is GRADED:  # the rename lets the folder disappear at once for other processes
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
