"""Whether this process may have the address space that it is about to need, asked before it is taken.

Where `ulimit -v` refuses memory later, other people's C++ aborts, hangs or crashes: OpenBLAS, libgomp and MXNet do not
look at the answer. Standard library alone: the command line asks before it imports.
"""

import mmap
import resource
from typing import NamedTuple

from ..errors import DeviceError

_MB = 1 << 20
_NORESERVE = 0x4000  # MAP_NORESERVE, which the module mmap does not name before Python 3.13


class AddressSpace(NamedTuple):
    """Megabytes of address space that something takes, of which each thread takes a part."""

    megabytes: int  # without threads
    per_thread: int

    def total(self, threads: int) -> int:
        return self.megabytes + self.per_thread * threads


def check(need: AddressSpace, threads: int, what: str) -> None:
    """Reserve so much for that many threads, and give it back.

    Parameters
    ----------
    what
        What needs it, for the message.

    Raises
    ------
    DeviceError
        When the system refuses; the message says how many threads would do, where fewer would.
    """
    if _has(need.total(threads)):
        return
    fewer = next((count for count in range(threads - 1, 0, -1) if _has(need.total(count))), 0)
    reason = f"{what} needs {need.total(threads)} MB of address space: raise the limit (`ulimit -v`)"
    raise DeviceError(f"{reason}, or ask for fewer threads: --threads {fewer} would do" if fewer else reason)


def has_limit() -> bool:
    """Whether this process's address space has a limit."""
    return resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY


def _has(megabytes: int) -> bool:
    if not has_limit():
        return True
    try:
        # Reserved and not committed: no page of it is ever there.
        mmap.mmap(-1, megabytes * _MB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE, prot=0).close()
    except (OSError, ValueError, OverflowError):
        return False
    return True
