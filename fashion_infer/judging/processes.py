"""Trials of a kernel file in one process per shape, so that a crash, an exit or the time limit ends only one trial.

A server process imports modules that every trial needs, without CUDA and without the kernel's code, and forks for each
shape. The forked process loads the kernel, tries the shape, and sends the result.
"""

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import time
import traceback
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Callable, Iterator, List, NamedTuple, Optional, Tuple, Union

from ..errors import CheckFailed, FashionInferError, UsageError
from ..kernel_files import formats, loading
from ..library import kernels
from . import reasons
from .calls import Shape, Tried, try_shape

# Code of the server process. It imports modules from the same folders as this process, not from the current folder.
_SERVER = f"import sys; sys.path[:] = sys.argv[2].split(':'); from {__name__} import serve; serve(int(sys.argv[1]))"
_LOOK = 0.05  # seconds between checks of a silent process
_LEAST, _MOST = 10.0, 60.0  # smallest and largest time limit for one shape, in seconds
_ALL_RACES, _MOST_RACES = 3.0, 1.0  # seconds of calls that look for a race: for all shapes, and for one
_HUNG, _SHORT = 2, 5.0  # after _HUNG shapes that reached their time limit, the limit is _SHORT seconds


class TrialShape(NamedTuple):
    """One shape to try."""

    what: str
    shape: Shape
    images: int


class TrialJob(NamedTuple):
    """The job of a server process."""

    path: str
    format: str
    backend: str
    library: Optional[Path]  # the built library, if it is compiled
    asked: Tuple[TrialShape, ...]
    device: int
    seed: int
    timeout: float  # time limit for all shapes, in seconds


Sent = Union[Tried, FashionInferError, None]  # None for a shape that the kernel does not support


Tick = Callable[[float, str], None]


def try_each(job: TrialJob, tick: Tick = lambda share, what: None) -> List[Tried]:
    """Try each shape, in order; shapes that the kernel does not support are left out.

    Parameters
    ----------
    job
        The kernel file and the shapes.
    tick
        Function that is called before each shape with the share of the work that is done, 0 to 1, and the shape as
        text.

    Raises
    ------
    FashionInferError
        When the kernel cannot be loaded.
    """
    with _server() as server:
        server.send(job)
        try:
            sent: List[Sent] = []
            for asked in job.asked:
                tick(len(sent) / len(job.asked), asked.what)
                sent.append(server.recv())
        except (EOFError, ConnectionError):
            raise CheckFailed(f"{job.path} ended the process that tries it") from None
    errors = [each for each in sent if isinstance(each, FashionInferError)]
    if errors:
        raise errors[0]
    return [each for each in sent if isinstance(each, Tried)]


@contextlib.contextmanager
def _server() -> Iterator[Connection]:
    """Return a context with a connection to a new server process. On its exit, the process and its children end."""
    ours, its = socket.socketpair()
    path = ":".join(part for part in sys.path if part)
    # The server's stdout is stderr, because a kernel may print while it is loaded.
    server = subprocess.Popen(
        [sys.executable, "-c", _SERVER, str(its.fileno()), path],
        stdin=subprocess.DEVNULL,
        stdout=2,
        pass_fds=(its.fileno(),),
        start_new_session=True,
    )
    its.close()
    try:
        with Connection(ours.detach()) as connection:
            yield connection
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)
        server.wait()


# ---- in the server


def serve(descriptor: int) -> None:
    """Try the shapes of one job, each in a forked process, and send the results."""
    parent = Connection(descriptor)
    job: TrialJob = parent.recv()
    _warm_up(job)
    end, hung = time.monotonic() + job.timeout, 0
    usual = min(_MOST, max(_LEAST, job.timeout / max(1, len(job.asked))))
    for asked in job.asked:
        limit = min(_SHORT if hung >= _HUNG else usual, max(0.0, end - time.monotonic()))
        found = _try_apart(job, asked, limit, parent) if limit else _ended(asked, "time_limit", f"{job.timeout:g}")
        hung += isinstance(found, Tried) and found.code == "time_limit"
        parent.send(found)


def _warm_up(job: TrialJob) -> None:
    """Import slow modules once."""
    if job.format == "python":
        with contextlib.suppress(Exception):
            import torch  # noqa: F401


def _recognised(job: TrialJob) -> formats.KernelFile:
    insist = None if job.format == "prebuilt" else job.format
    return formats.recognise(job.path, insist, job.backend)


def _try_apart(job: TrialJob, asked: TrialShape, limit: float, parent: Connection) -> Sent:
    receiving, sending = os.pipe()
    child = os.fork()
    if child == 0:
        parent.close()
        os.close(receiving)
        _try_here(job, asked, Connection(sending, readable=False))
    os.close(sending)
    end, status = time.monotonic() + limit, None
    with Connection(receiving, writable=False) as results:
        while status is None:
            ready, _, _ = select.select([results, parent], [], [], _LOOK)
            if parent in ready:  # the parent's end is closed, so it no longer waits
                os.killpg(0, signal.SIGKILL)
            if results in ready:
                with contextlib.suppress(EOFError):
                    (found,) = results.recv()
                    _end(child)
                    return found
            status = _status(child)
            if status is None and time.monotonic() > end:
                _end(child)
                return _ended(asked, "time_limit", f"{limit:.3g}")
    if os.WIFSIGNALED(status):
        return _ended(asked, "crash", reasons.signal_name(os.WTERMSIG(status)))
    return _ended(asked, "exit", os.WEXITSTATUS(status))


def _try_here(job: TrialJob, asked: TrialShape, results: Connection) -> None:
    """Try a shape, send the result, and end this process, which was forked for the shape."""
    found: Sent = None
    try:
        kernel = loading.load(_recognised(job), device=job.device, library=job.library)
        races = min(_MOST_RACES, _ALL_RACES / len(job.asked))
        if takes(kernel, asked.shape):
            found = try_shape(kernel, *asked, seed=job.seed, device=job.device, quiet=True, race_seconds=races)
    except FashionInferError as error:
        found = error
    except BaseException:  # an error of this package: errors of the kernel have been turned into messages
        traceback.print_exc()
        os._exit(70)
    results.send((found,))
    os._exit(0)


def takes(kernel: loading.LoadedKernel, shape: Shape) -> bool:
    """Return whether a kernel supports a shape. LeetGPU's files, for example, support only one input channel."""
    channels, size, filters, side = shape
    try:
        kernels.chosen_kernel((1, channels, size, size), (filters, channels, side, side), kernel.backend, kernel.name)
    except UsageError:
        return False
    return True


def _ended(asked: TrialShape, code: str, detail: object) -> Tried:
    channels, side, filters, taps = asked.shape
    size = (asked.images, channels, side, side, filters, taps)
    return Tried(asked.what, size, code, reasons.sentence(code, detail))


def _status(child: int) -> Optional[int]:
    """Return a child's exit status; None while the child runs."""
    ended, status = os.waitpid(child, os.WNOHANG)
    return status if ended else None


def _end(child: int) -> None:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
