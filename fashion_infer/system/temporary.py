"""Temporary files and folders that nothing leaves behind: no error, no Ctrl-C, no SIGTERM."""

import contextlib
import os
import shutil
import signal
import subprocess
import threading
from pathlib import Path
from typing import Callable, Iterator, List, Union

from .interrupts import interrupt_deferred

_Undo = Callable[[], None]
_unfinished: List[_Undo] = []


@contextlib.contextmanager
def vanishing(make: Callable[[], str]) -> Iterator[str]:
    """A temporary file or folder, gone at the end of the block, and when SIGTERM ends the program within it.

    Parameters
    ----------
    make
        Makes it and gives its path. Neither Ctrl-C nor SIGTERM comes between its making and the block.
    """
    made: List[str] = []
    with _undone(lambda: _remove(made)):
        with interrupt_deferred(signal.SIGTERM):
            made.append(make())
        yield made[0]


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
    with _undone(lambda: _remove_empty(missing)):
        place.mkdir(mode, parents=True, exist_ok=True)
        yield place


@contextlib.contextmanager
def _undone(undo: _Undo) -> Iterator[None]:
    """Call `undo` at the end of the block, whatever ends it."""
    with _terminating_cleanly():
        _unfinished.append(undo)
        try:
            yield
        finally:
            with interrupt_deferred():
                _unfinished.remove(undo)
                undo()


def _remove(paths: List[str]) -> None:
    for path in paths:
        if os.path.isdir(path) and not os.path.islink(path):
            with contextlib.suppress(RecursionError):
                shutil.rmtree(path, ignore_errors=True)
            if os.path.isdir(path):  # folders in folders without end, or closed ones
                subprocess.run(["/bin/sh", "-c", 'chmod -R u+rwx "$0"; rm -rf "$0"', path], stderr=subprocess.DEVNULL)
        else:
            with contextlib.suppress(OSError):
                os.unlink(path)


def _remove_empty(folders: List[Path]) -> None:
    for each in folders:
        with contextlib.suppress(OSError):
            each.rmdir()


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
        for undo in reversed(_unfinished):
            undo()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
