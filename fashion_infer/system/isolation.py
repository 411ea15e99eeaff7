"""A command that runs somebody's kernel file, in a process of its own: whatever the file does, it ends in one line.

This is convenience, not security: the file runs as the user who started the command, and may do what that user may.

The parent starts the same command line again, as the leader of a new process group, and waits. The child reports over a
pipe when it hands over to the file's code, and when it ends by itself; all else is the file's doing. Standard library
alone: the parent imports nothing that the child imports anyway.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import PurePath
from typing import List, Sequence

from ..errors import CheckFailed

TIMEOUT = 600.0  # seconds; 10,000 images through the slowest kernel of the ladder on two cores take a few
_INSIDE = "FASHION_INFER_ISOLATED"  # set in the child, and in what it starts
_PIPES = "FASHION_INFER_ISOLATED_PIPES"  # the child's own: where it reports, and what ends when the parent does
# Not `-m`, which would look for modules in the current folder first: there lies the user's own code.
_CHILD = f"import sys; del sys.path[0]; from {__package__.partition('.')[0]}.cli.main import main; main()"
_STARTED, _ENDED = b"s", b"e"
_LOOK = 0.2  # seconds between two looks at the pipe

_report = -1  # in the child: the file descriptor to report to


def inside() -> bool:
    """Whether this process is such a child, or was started by one."""
    return _INSIDE in os.environ


def run(arguments: Sequence[str], kernels: Sequence[str], timeout: float = TIMEOUT) -> int:
    """Run this program with these arguments in a child.

    Parameters
    ----------
    arguments
        The command line behind "fashion-infer".
    kernels
        The kernel files, for messages.
    timeout
        Seconds from when the first file's code runs; compiling is not counted.

    Returns
    -------
    int
        The child's exit code, when it ended by itself.

    Raises
    ------
    CheckFailed
        When the kernel crashed, called exit() or did not end in time.
    """
    what = ", ".join(PurePath(kernel).name for kernel in kernels)
    reports, to_report = os.pipe()
    lives, holds = os.pipe()  # `holds` stays with the parent: when that ends, the child reads the end of the pipe
    path = os.pathsep.join(part for part in sys.path if part)
    known = {**os.environ, _INSIDE: "1", _PIPES: f"{to_report},{lives}", "PYTHONPATH": path}
    child = None
    said = b""
    try:
        child = subprocess.Popen(
            [sys.executable, "-c", _CHILD, *arguments],
            stdin=subprocess.DEVNULL, env=known, pass_fds=(to_report, lives), start_new_session=True,
        )  # fmt: skip
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
        raise CheckFailed(f"{doing} crashed: {_named(-code)}")
    raise CheckFailed(f"{doing} ended the process with exit code {code}")


def begin() -> None:
    """In the child, first of all: take the pipes over, and end with the parent."""
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
    """In the child: a file's code runs from here on. Elsewhere nothing."""
    if _report >= 0:
        os.write(_report, _STARTED)
        crash_plainly()


def crash_plainly() -> None:
    """In the child: a crash is the signal's own. MXNet has handlers that print a stack and call exit()."""
    if _report >= 0 and threading.current_thread() is threading.main_thread():
        for number in (signal.SIGSEGV, signal.SIGFPE, signal.SIGBUS, signal.SIGILL, signal.SIGABRT):
            signal.signal(number, signal.SIG_DFL)


def ended() -> None:
    """In the child: the command has ended by itself, and what it had to say is said."""
    if _report >= 0:
        os.write(_report, _ENDED)


def _read(pipe: int) -> bytes:
    try:
        return os.read(pipe, 4096)
    except BlockingIOError:
        return b""


def _end(child: "subprocess.Popen[bytes]") -> None:
    """End the child, and all that it started and left."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _named(number: int) -> str:
    known: List[str] = [signal.strsignal(number) or ""]
    try:
        known.insert(0, signal.Signals(number).name)
    except ValueError:
        known.insert(0, f"signal {number}")
    return f"{known[0]} ({known[1]})" if known[1] else known[0]
