"""A child process with limits of time, memory and open files, for libraries that read what strangers wrote.

It is a limit, not a sandbox: it stops what runs for ever or asks for everything, and a crash is one line.
"""

import contextlib
import os
import resource
import signal
import subprocess
import sys
from typing import Dict, NamedTuple, Sequence

_ALONE = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}


class Ended(NamedTuple):
    """What a child wrote to stdout, and how it ended: "" by itself, "time", "processor time", or what the system said
    where it could not be started."""

    out: bytes
    why: str


def code(module: str) -> str:
    """Python that calls a module's `child` with the words of the command line."""
    # Nothing is imported from the current folder, the empty name; it is not there where that folder has been deleted.
    return f"import sys; sys.path[:] = filter(None, sys.path); from {module} import child; child(*sys.argv[1:])"


def run(program: str, words: Sequence[str], seconds: float, environment: Dict[str, str], given: bytes = b"") -> Ended:
    """Run Python code in a child that can import what this process can.

    Parameters
    ----------
    program, words
        See `code`. It calls `limit` once it has imported what it needs.
    seconds
        After so many it is ended.
    environment
        Variables beside this process's own.
    given
        Its stdin.
    """
    # Python does not start in a deleted folder with a relative path in its way, such as an import hook's name.
    libraries = os.pathsep.join(os.path.abspath(part) for part in sys.path if part and os.path.exists(part))
    try:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", program, *words], input=given,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=seconds,
            env={**os.environ, **_ALONE, **environment, "PYTHONPATH": libraries},
        )  # fmt: skip
    except subprocess.TimeoutExpired as late:
        return Ended(late.stdout or b"", "time")
    except OSError as error:
        return Ended(b"", error.strerror or str(error))
    return Ended(done.stdout, "processor time" if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL) else "")


def limit(memory: int, files: int = 1) -> None:
    """Limit this process: to so many bytes more than it has and so many open files more, and to writing no file."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    limits = {resource.RLIMIT_FSIZE: 0, resource.RLIMIT_CORE: 0}
    free = os.dup(0)  # the lowest free descriptor: what is opened next gets it
    os.close(free)
    limits[resource.RLIMIT_NOFILE] = free + files
    with contextlib.suppress(OSError), open("/proc/self/statm") as file:
        limits[resource.RLIMIT_AS] = int(file.read().split()[0]) * resource.getpagesize() + memory
    for what, most in limits.items():
        _lower(what, most)


def limit_time(cpu_seconds: int) -> None:
    """Let this process have so many seconds of processor time from now on, in place of what it was let have before."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    _lower(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime) + 1 + cpu_seconds)


def _lower(what: int, most: int) -> None:
    _, hard = resource.getrlimit(what)
    resource.setrlimit(what, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
