"""Reads input files that a user names, but only regular files, and only up to a size limit.

Other files are refused: opening a FIFO may wait forever for a writer, and a device such as /dev/zero has no end.
"""

import contextlib
import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO, Iterator, Type, Union

from ..errors import DataError, FashionInferError

_Path = Union[str, Path]


def check(path: _Path, error: Type[FashionInferError] = DataError, what: str = "") -> int:
    with _explained(path, error, what):
        status = os.stat(path)
        _check_regular(status)
        return status.st_size


def read(path: _Path, most: int, error: Type[FashionInferError] = DataError, what: str = "") -> bytes:
    size = check(path, error, what)
    with _explained(path, error, what):
        _check_size(size, most)
        with open_regular(path) as stream:
            # `size` was checked above: read(size) allocates that many bytes before it reads any.
            return stream.read(size)


def read_own(path: _Path, most: int, error: Type[FashionInferError] = DataError, what: str = "") -> bytes:
    """Read a user's own file from a folder of others: no symbolic link, no second hard link, no other's file."""
    with _explained(path, error, what), open_regular(path, os.O_NOFOLLOW) as stream:
        status = os.fstat(stream.fileno())
        if status.st_uid != os.geteuid() or status.st_nlink != 1:
            raise OSError(errno.EPERM, "it belongs to another user or has a second hard link")
        data = stream.read(most + 1)
        _check_size(len(data), most)
        return data


def check_readable(path: _Path, error: Type[FashionInferError] = DataError, what: str = "") -> int:
    size = check(path, error, what)
    with _explained(path, error, what):
        open_regular(path).close()
    return size


def open_regular(path: _Path, flags: int = 0) -> BinaryIO:
    """Open a regular file for reading bytes; OSError for any other file, without waiting for a FIFO's writer."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | flags)
    try:
        _check_regular(os.fstat(descriptor))
    except OSError:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "rb")


def _check_regular(status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file")


def _check_size(size: int, most: int) -> None:
    if size > most:
        raise ValueError(f"it is larger than the limit of {most:,} bytes")


@contextlib.contextmanager
def _explained(path: _Path, error: Type[FashionInferError], what: str) -> Iterator[None]:
    """Return a context in which an OSError or a ValueError becomes `error`; `what` precedes the path in its message."""
    try:
        yield
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or problem
        raise error(f"cannot read {what}{path}: {reason}") from None
