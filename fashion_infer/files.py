"""Files that appear whole or not at all."""

import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator, Type

from .errors import CheckpointError, FashionInferError


@contextmanager
def replacing(path, error: Type[FashionInferError] = CheckpointError) -> Iterator[str]:
    """A temporary file beside `path` that takes its place when the block succeeds and vanishes when it fails.

    Raises
    ------
    error
        When the file cannot be written.
    """
    path = Path(path)
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        os.close(handle)
    except OSError as problem:
        raise error(f"cannot write {path}: {problem.strerror}") from None
    try:
        yield temporary
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)  # mkstemp's own mode is private
        os.replace(temporary, path)
    except OSError as problem:
        raise error(f"cannot write {path}: {problem.strerror or problem}") from None
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)
