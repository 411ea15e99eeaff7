"""Whether this process may have the memory and the threads that it is about to need: asked before they are taken.

Where the system refuses them later, other people's C++ aborts, hangs, or crashes: OpenBLAS, libgomp and MXNet ask for
memory and threads where nobody looks at the answer. Standard library alone: the command line asks before it imports.
"""

import mmap
import resource
import threading

from ..errors import DeviceError

_MB = 1 << 20


def check(address_space: int, threads: int, what: str) -> None:
    """Ask the system for so much, and give it back.

    Parameters
    ----------
    address_space
        Megabytes. What `ulimit -v` limits: it is larger than the memory that is used.
    threads
        Threads beside those that run.
    what
        What needs them, for the message.

    Raises
    ------
    DeviceError
        When the system refuses.
    """
    if not _has_address_space(address_space):
        raise DeviceError(f"{what} needs {address_space} MB of address space: raise the limit (`ulimit -v`)")
    if not _has_threads(threads):
        raise DeviceError(
            f"{what} needs {threads} threads: raise the limit on processes (`ulimit -u`), or use fewer CPUs"
        )


def _has_address_space(size: int) -> bool:
    if resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY:
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
