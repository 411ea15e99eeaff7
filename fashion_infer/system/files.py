"""Writes all files that a user names, completely or not at all, and without harm to other files.

| existing file | what happens |
| --- | --- |
| none, or a regular file | a complete temporary file replaces it; mode bits and owner are kept |
| a symbolic link | the same for its target; the link stays |
| a character device, a FIFO, an open descriptor (/dev/stdout) | it is opened and written to, not replaced |
| anything else (a folder, a socket, a block device) | refused |

Temporary files and folders are always removed, even after an error, Ctrl-C or SIGTERM.
"""

import contextlib
import errno
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from functools import partial
from pathlib import Path
from typing import Callable, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Type, Union

from ..errors import CheckpointError, DataError, FashionInferError
from . import paths
from .interrupts import interrupt_deferred

_READER_WAIT = 10.0  # seconds to wait for a reader of a FIFO
_KINDS = ((stat.S_ISDIR, "a folder"), (stat.S_ISSOCK, "a socket"), (stat.S_ISBLK, "a block device"))
_Path = Union[str, "os.PathLike[str]"]
_unfinished: List[Callable[[], None]] = []


class _Target(NamedTuple):
    place: str  # the path to write; its symbolic links are resolved unless it is streamed
    status: Optional[os.stat_result]  # None if nothing exists there yet
    streamed: bool  # whether it is opened and written to, instead of replaced


def check(path: _Path, error: Type[FashionInferError] = DataError) -> None:
    """Raise `error` if `path` cannot be written. Commands call this before they measure anything."""
    try:
        _target(path)
    except (OSError, ValueError) as problem:
        raise error(f"cannot write {path}: {_reason(problem)}") from None


@contextlib.contextmanager
def replacing(path: _Path, error: Type[FashionInferError] = CheckpointError, durable: bool = True) -> Iterator[str]:
    """Return a context with a temporary file, whose content replaces `path` if the block succeeds (see the table); if
    `path` cannot be written, `error` is raised. With `durable`, the content is flushed to disk first."""
    with replacing_together([path], error, durable) as (temporary,):
        yield temporary


@contextlib.contextmanager
def replacing_together(
    paths: Sequence[_Path], error: Type[FashionInferError] = CheckpointError, durable: bool = True
) -> Iterator[List[str]]:
    """Return a context like `replacing` for several files: all of them change, or none does."""
    with contextlib.ExitStack() as cleaning:
        targets, temporaries = [], []
        for path in paths:
            try:
                targets.append(_target(path))
                temporaries.append(cleaning.enter_context(vanishing(partial(_temporary, targets[-1]))))
            except (OSError, ValueError) as problem:
                raise error(f"cannot write {path}: {_reason(problem)}") from None
        try:
            yield temporaries
            _put(targets, temporaries, durable, cleaning)
        except OSError as problem:
            raise error(f"cannot write {' and '.join(map(str, paths))}: {_reason(problem)}") from None


def write(path: _Path, text: str, error: Type[FashionInferError] = DataError) -> None:
    with replacing(path, error) as temporary:
        Path(temporary).write_text(text, encoding="utf-8")


def _target(path: _Path) -> _Target:
    named = os.fspath(path)
    if not os.path.isabs(named) and paths.working_folder() is None:
        raise ValueError("the working folder has been deleted")
    place = os.path.realpath(named)
    try:
        status: Optional[os.stat_result] = os.stat(named)
    except FileNotFoundError:
        status = None
    if status is not None:
        for is_kind, kind in _KINDS:
            if is_kind(status.st_mode):
                raise ValueError(f"it is {kind}")
        if not os.access(named, os.W_OK):
            raise ValueError("it is write-protected")
        if not stat.S_ISREG(status.st_mode) or _descriptor(named):
            return _Target(named, status, True)
    folder = os.path.dirname(place)
    if not os.path.isdir(folder) or named.endswith("/"):
        raise ValueError("it is a folder, or its folder does not exist")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ValueError("its folder is not writable")
    return _Target(place, status, False)


def _descriptor(path: str) -> Optional[Tuple[int, int]]:
    """Return process and descriptor of the open file behind a name such as /dev/stdout; None for other names."""
    for _ in range(40):  # the number of links that Linux follows
        folder = os.path.realpath(os.path.dirname(os.path.abspath(path)))
        found = re.fullmatch(r"/proc/(\d+)(?:/task/\d+)?/fd", folder)
        if found:
            return int(found.group(1)), int(os.path.basename(path))
        try:
            path = os.path.join(folder, os.readlink(path))
        except OSError:
            return None
    return None


def _temporary(target: _Target) -> str:
    """Create an empty file next to its target, because a rename cannot cross file systems."""
    folder, name = os.path.split(target.place)
    # A file name may have at most 255 bytes, so shorten it: mkstemp adds to it.
    handle, path = tempfile.mkstemp(dir=None if target.streamed else folder, prefix=f".{name[:40]}.")
    os.close(handle)
    return path


def _put(targets: List[_Target], temporaries: List[str], durable: bool, cleaning: contextlib.ExitStack) -> None:
    """Write streams first, because they fail most easily. Then rename files; if one fails, undo the earlier ones."""
    for target, temporary in zip(targets, temporaries):
        if target.streamed:
            _stream(temporary, target.place)
        else:
            _finish(temporary, target.status, durable)
    _rename(targets, temporaries, cleaning)


@interrupt_deferred(signal.SIGTERM)
def _rename(targets: List[_Target], temporaries: List[str], cleaning: contextlib.ExitStack) -> None:
    undo: List[List[str]] = []
    try:
        for target, temporary in zip(targets, temporaries):
            if target.streamed:
                continue
            kept = f"{temporary}.old"
            if len(targets) > 1 and target.status is not None:
                _keep(target.place, kept, cleaning)
            os.replace(temporary, target.place)
            undo.append([kept, target.place])
    except BaseException:
        for kept, place in undo:
            if os.path.exists(kept):
                os.replace(kept, place)
            else:
                os.unlink(place)
        raise


def _finish(temporary: str, status: Optional[os.stat_result], durable: bool) -> None:
    if status is None:
        umask = os.umask(0)
        os.umask(umask)
        mode = 0o666 & ~umask  # mkstemp creates files that only their owner can read
    else:
        mode = stat.S_IMODE(status.st_mode)
        with contextlib.suppress(OSError):  # only root can change the owner
            os.chown(temporary, status.st_uid, status.st_gid)
    os.chmod(temporary, mode)
    if durable:
        handle = os.open(temporary, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _keep(place: str, kept: str, cleaning: contextlib.ExitStack) -> None:
    cleaning.enter_context(
        vanishing(lambda: kept)
    )  # registered before the file exists, because a copy may fail halfway
    try:
        os.link(place, kept)
    except OSError:  # a file system without hard links
        shutil.copy2(place, kept)


def _stream(temporary: str, place: str) -> None:
    if sys.stdout is not None:
        sys.stdout.flush()  # sys.stdout may write to the same descriptor
    process, number = _descriptor(place) or (None, -1)
    # A duplicated descriptor shares the file's offset, so that this process does not overwrite its other output.
    handle = os.dup(number) if process == os.getpid() else _opened(place)
    with open(temporary, "rb") as source, open(handle, "wb") as sink:
        shutil.copyfileobj(source, sink)


def _opened(place: str) -> int:
    deadline = time.monotonic() + _READER_WAIT
    while True:
        try:
            handle = os.open(place, os.O_WRONLY | os.O_APPEND | os.O_NOCTTY | os.O_NONBLOCK)
            os.set_blocking(handle, True)
            return handle
        except OSError as problem:
            if problem.errno != errno.ENXIO:
                raise
            if time.monotonic() > deadline:
                raise OSError(errno.ENXIO, f"nobody read from it within {_READER_WAIT:g} s") from None
        time.sleep(0.05)


def _reason(problem: Exception) -> str:
    return getattr(problem, "strerror", None) or str(problem)


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
def _undone(undo: Callable[[], None]) -> Iterator[None]:
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
    """Return a context in which SIGTERM removes unfinished files before it ends the process."""
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
