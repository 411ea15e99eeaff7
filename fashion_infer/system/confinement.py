"""Runs libraries that read untrusted files in a child process with limits on time, memory and open files.

This is no sandbox: it stops code that runs forever or uses all memory, and turns a crash into a one-line error.
"""

import contextlib
import os
import resource
import signal
import subprocess
import sys
from typing import Dict, NamedTuple, Sequence

_ALONE = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}


class ChildEnd(NamedTuple):
    out: bytes  # the child's stdout
    # "" if the child ended by itself; "time" or "processor time" if it reached that limit; the system's message if it
    # could not start.
    why: str


def code(module: str) -> str:
    # Remove the empty name, which stands for the current folder, from the path, so that nothing is imported from there.
    return f"import sys; sys.path[:] = filter(None, sys.path); from {module} import child; child(*sys.argv[1:])"


def run(
    program: str, words: Sequence[str], seconds: float, environment: Dict[str, str], given: bytes = b""
) -> ChildEnd:
    """Run Python code, which must call `limit` after its imports, in a child; kill it after so many seconds."""
    # Make all entries absolute: Python does not start in a deleted folder if sys.path has a relative entry, such as the
    # name of an import hook.
    libraries = os.pathsep.join(os.path.abspath(part) for part in sys.path if part and os.path.exists(part))
    try:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", program, *words],
            input=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=seconds,
            env={**os.environ, **_ALONE, **environment, "PYTHONPATH": libraries},
        )
    except subprocess.TimeoutExpired as late:
        return ChildEnd(late.stdout or b"", "time")
    except OSError as error:
        return ChildEnd(b"", error.strerror or str(error))
    return ChildEnd(done.stdout, "processor time" if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL) else "")


def limit(memory: int, files: int = 1) -> None:
    """Limit this process to `memory` more bytes and `files` more open files than now, and forbid writing files."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    limits = {resource.RLIMIT_FSIZE: 0, resource.RLIMIT_CORE: 0}
    free = os.dup(0)  # the lowest free descriptor, which the next opened file gets
    os.close(free)
    limits[resource.RLIMIT_NOFILE] = free + files
    with contextlib.suppress(OSError), open("/proc/self/statm") as file:
        limits[resource.RLIMIT_AS] = int(file.read().split()[0]) * resource.getpagesize() + memory
    for what, most in limits.items():
        _lower(what, most)


def limit_time(cpu_seconds: int) -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    _lower(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime) + 1 + cpu_seconds)


def _lower(what: int, most: int) -> None:
    _, hard = resource.getrlimit(what)
    resource.setrlimit(what, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
