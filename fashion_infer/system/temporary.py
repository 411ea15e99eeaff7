"""Temporary files and folders that are always removed, even after an error, Ctrl-C or SIGTERM."""

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
    """Return a context with a temporary file or folder, which `make` creates; it is removed also if SIGTERM ends it."""
    made: List[str] = []
    with _undone(lambda: _remove(made)):
        with interrupt_deferred(signal.SIGTERM):
            made.append(make())
        yield made[0]


@contextlib.contextmanager
def folder_made(path: Union[str, Path], mode: int = 0o777) -> Iterator[Path]:
    """Return a context with a folder, created with its parents if missing. Empty created folders are removed again."""
    place = Path(os.path.abspath(path))
    missing = [each for each in (place, *place.parents) if not os.path.lexists(each)]
    with _undone(lambda: _remove_empty(missing)):
        place.mkdir(mode, parents=True, exist_ok=True)
        yield place


@contextlib.contextmanager
def _undone(undo: _Undo) -> Iterator[None]:
    """Return a context that calls `undo` at its end, however it ends."""
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
            if os.path.isdir(path):  # nested too deeply, or with unreadable folders
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
    """Return a context in which SIGTERM removes unfinished files and then ends the process as usual.

    The handler runs only after the current call into C returns, which may be minutes of inference. It is therefore
    installed only in this context.
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
