"""Temporary files and folders that nothing leaves behind: no error, no Ctrl-C, no SIGTERM."""

import contextlib
import os
import shutil
import signal
import threading
from pathlib import Path
from typing import Iterator, List, Union

_unfinished: List[str] = []


@contextlib.contextmanager
def vanishing(path: str) -> Iterator[None]:
    """Remove a temporary file or folder at the end of the block, and when SIGTERM ends the program within it."""
    with _terminating_cleanly():
        _unfinished.append(path)
        try:
            yield
        finally:
            _remove(path)
            _unfinished.remove(path)


@contextlib.contextmanager
def folder_made(path: Union[str, Path], mode: int = 0o777) -> Iterator[Path]:
    """A folder, made where it is missing, and those above it; what was made and is empty at the end is removed.

    Parameters
    ----------
    mode
        Of the folder itself; those above it have the umask's.

    Raises
    ------
    OSError
        When it cannot be made.
    """
    place = Path(os.path.abspath(path))
    missing = [each for each in (place, *place.parents) if not os.path.lexists(each)]
    try:
        place.mkdir(mode, parents=True, exist_ok=True)
        yield place
    finally:
        for each in missing:
            with contextlib.suppress(OSError):
                each.rmdir()


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            os.unlink(path)


@contextlib.contextmanager
def _terminating_cleanly() -> Iterator[None]:
    """SIGTERM removes what is unfinished, and then ends the process as it would have.

    Only while something is unfinished: a handler of Python's waits for the end of a call into C, which may be minutes
    of inference, and that is no time to be deaf.
    """
    here = threading.current_thread() is threading.main_thread()
    if not here or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return

    def end(number: int, frame: object) -> None:
        for path in _unfinished:
            _remove(path)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
