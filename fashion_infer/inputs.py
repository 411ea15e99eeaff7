"""Files that a user names as input: regular ones only, and never more of them than was expected.

Opening a FIFO waits for a writer that may never come, and a device such as /dev/zero has no end.
"""

import errno
import os
import stat
from pathlib import Path
from typing import Type, Union

from .errors import DataError, FashionInferError


def check(path: Union[str, Path], error: Type[FashionInferError] = DataError, what: str = "") -> int:
    """The size in bytes of the regular file (or of what a link leads to); it is not opened.

    `what` stands before the path in messages.

    Raises
    ------
    error
        When there is no file at `path`, or something else.
    """
    try:
        status = os.stat(path)
    except (OSError, ValueError) as problem:
        raise error(f"cannot read {what}{path}: {getattr(problem, 'strerror', None) or problem}") from None
    if not stat.S_ISREG(status.st_mode):
        reason = os.strerror(errno.EISDIR) if stat.S_ISDIR(status.st_mode) else "it is not a regular file"
        raise error(f"cannot read {what}{path}: {reason}")
    return status.st_size


def read(path: Union[str, Path], most: int, error: Type[FashionInferError] = DataError, what: str = "") -> bytes:
    """All bytes of a regular file that has at most so many.

    Raises
    ------
    error
        When the file cannot be read, is no regular file, or is larger.
    """
    if check(path, error, what) > most:
        raise error(f"cannot read {what}{path}: it is larger than the {most:,} bytes that such a file may have")
    try:
        with open(path, "rb") as stream:
            return stream.read(most)
    except OSError as problem:
        raise error(f"cannot read {what}{path}: {problem.strerror or problem}") from None
