"""Whether this process may have the memory and the threads that it is about to need: asked before they are taken.

Where the system refuses them later, other people's C++ aborts, hangs, or crashes: OpenBLAS, libgomp and MXNet ask for
memory and threads where nobody looks at the answer. Standard library alone: the command line asks before it imports.
"""

import mmap
import resource
import threading
from typing import NamedTuple

from ..errors import DeviceError

_MB = 1 << 20


class Need(NamedTuple):
    """What something takes, of which each thread takes a part."""

    megabytes: int  # of address space, without threads. What `ulimit -v` limits: larger than the memory that is used
    per_thread: int  # megabytes more for each thread
    started: int = 0  # threads that it starts beside those that are asked for, as large as they
    times: int = 1  # threads that it starts for one that is asked for

    def space(self, threads: int) -> int:
        """Megabytes of address space in all."""
        return self.megabytes + self.per_thread * self.count(threads)

    def count(self, threads: int) -> int:
        """Threads beside those that run."""
        return self.started + self.times * threads


def check(need: Need, threads: int, what: str) -> None:
    """Ask the system for so much, and give it back.

    Parameters
    ----------
    need, threads
        What is needed for so many threads.
    what
        What needs them, for the message.

    Raises
    ------
    DeviceError
        When the system refuses; it says how many threads would do, where fewer would.
    """
    if not _has_address_space(need.space(threads)):
        reason = f"{what} needs {need.space(threads)} MB of address space: raise the limit (`ulimit -v`)"
    elif not _has_threads(need.count(threads)):
        reason = f"{what} needs {need.count(threads)} threads: raise the limit on processes (`ulimit -u`)"
    else:
        return
    fewer = most(need, threads)
    raise DeviceError(f"{reason}, or ask for fewer threads: --threads {fewer} would do" if fewer else reason)


def most(need: Need, threads: int) -> int:
    """How many threads, at most so many, may be had; 0 when not even one."""
    low, high = 0, threads + 1  # low may be had, high may not
    while high - low > 1:
        middle = (low + high) // 2
        if _has_address_space(need.space(middle)) and _has_threads(need.count(middle)):
            low = middle
        else:
            high = middle
    return low


def has_limit() -> bool:
    """Whether this process's address space has a limit."""
    return resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY


def _has_address_space(size: int) -> bool:
    if not has_limit():
        return True
    try:
        # Reserved and not committed: no page of it is ever there.
        mmap.mmap(-1, size * _MB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000, prot=0).close()
    except (OSError, ValueError, OverflowError):
        return False
    return True


def _has_threads(count: int) -> bool:
    done, started = threading.Event(), []
    try:
        for _ in range(count):
            thread = threading.Thread(target=done.wait, daemon=True)
            thread.start()
            started.append(thread)
    except (RuntimeError, MemoryError):
        return False
    finally:
        done.set()
        for thread in started:
            thread.join()
    return True
