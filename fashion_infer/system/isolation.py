"""Isolates commands that run a kernel file in a separate process, so that any failure gives a one-line error.

This is convenience, not security: the file has the user's rights. The child reports over a pipe when the file's code
starts, and when the command ends by itself; any other end is attributed to the file. Only the standard library is used,
so that the parent does not repeat the child's imports.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import PurePath
from typing import Sequence

from ..errors import CheckFailed

TIMEOUT = 600.0  # seconds; 10,000 images with the slowest kernel of the ladder take a few seconds on two cores
_INSIDE = "FASHION_INFER_ISOLATED"  # set in the child, and in its own children
_PIPES = "FASHION_INFER_ISOLATED_PIPES"  # set in the child only: pipes for its reports, and to detect the parent's end
# `-m` is not used, because it would look for modules first in the current folder, which may contain the user's code.
_CHILD = f"import sys; del sys.path[0]; from {__package__.partition('.')[0]}.cli.main import main; main()"
_STARTED, _ENDED = b"s", b"e"
_LOOK = 0.2  # seconds between checks of the pipe

_report = -1  # in the child: the file descriptor to report to


def inside() -> bool:
    return _INSIDE in os.environ


def run(arguments: Sequence[str], kernels: Sequence[str], timeout: float = TIMEOUT) -> int:
    """Run this program in a child, and return its exit code; CheckFailed if it crashed, exited or took too long."""
    what = ", ".join(PurePath(kernel).name for kernel in kernels)
    reports, to_report = os.pipe()
    lives, holds = os.pipe()  # the parent keeps `holds`: when it ends, the child reads the end of the pipe
    path = os.pathsep.join(part for part in sys.path if part)
    known = {**os.environ, _INSIDE: "1", _PIPES: f"{to_report},{lives}", "PYTHONPATH": path}
    child = None
    said = b""
    try:
        child = subprocess.Popen(
            [sys.executable, "-c", _CHILD, *arguments],
            stdin=subprocess.DEVNULL,
            env=known,
            pass_fds=(to_report, lives),
            start_new_session=True,
        )
        os.close(to_report)
        os.close(lives)
        os.set_blocking(reports, False)
        waited = 0.0
        while True:
            try:
                code = child.wait(_LOOK)
                said += _read(reports)
                break
            except subprocess.TimeoutExpired:
                said += _read(reports)
                waited += _LOOK if _STARTED in said else 0.0
                if waited > timeout:
                    raise CheckFailed(f"{what} did not end within {timeout:g} s (--timeout)") from None
    finally:
        if child is not None:
            _end(child)
        os.close(reports)
        os.close(holds)
    if _ENDED in said:
        return code
    doing = what if _STARTED in said else "the run"
    if code < 0:
        raise CheckFailed(f"{doing} crashed: {signal_name(-code)}")
    raise CheckFailed(f"{doing} ended the process with exit code {code}")


def begin() -> None:
    """Start a thread that kills the child's process group when the parent ends; nothing in other processes."""
    global _report
    pipes = os.environ.pop(_PIPES, None)
    if pipes is None:
        return
    _report, lives = (int(number) for number in pipes.split(","))
    for pipe in (_report, lives):
        os.set_inheritable(pipe, False)

    def follow() -> None:
        os.read(lives, 1)
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=follow, daemon=True).start()


def started() -> None:
    if _report >= 0:
        os.write(_report, _STARTED)
        crash_plainly()


def crash_plainly() -> None:
    """Restore the default signal actions in the child, because MXNet's handlers print a stack and call exit()."""
    if _report >= 0 and threading.current_thread() is threading.main_thread():
        for number in (signal.SIGSEGV, signal.SIGFPE, signal.SIGBUS, signal.SIGILL, signal.SIGABRT):
            signal.signal(number, signal.SIG_DFL)


def ended() -> None:
    if _report >= 0:
        os.write(_report, _ENDED)


def _read(pipe: int) -> bytes:
    try:
        return os.read(pipe, 4096)
    except BlockingIOError:
        return b""


def _end(child: "subprocess.Popen[bytes]") -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def signal_name(number: int) -> str:
    """Return name and description of a signal, such as "SIGSEGV (Segmentation fault)"."""
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    said = signal.strsignal(number)
    return f"{name} ({said})" if said else name
