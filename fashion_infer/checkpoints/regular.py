"""Files opened for reading that are files: no FIFO that hangs, no device that never ends."""

import errno
import os
import stat
from typing import BinaryIO


def open_regular(path) -> BinaryIO:
    """Open a regular file to read its bytes; OSError for anything else, without waiting for a writer."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no regular file")
    return os.fdopen(descriptor, "rb")
