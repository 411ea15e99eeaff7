"""Checks early whether this process may allocate the address space that it will need (`ulimit -v`).

OpenBLAS, libgomp and MXNet do not check allocations: later, they would abort, hang or crash. Only the standard library
is used, because the command line calls this module before other imports.
"""

import mmap
import resource
from typing import NamedTuple

from ..errors import DeviceError

_MB = 1 << 20
_NORESERVE = 0x4000  # MAP_NORESERVE, which the module mmap lacks before Python 3.13


class AddressSpace(NamedTuple):
    """Address space that a library or a command needs, in megabytes: a fixed part and a part per thread."""

    megabytes: int  # without threads
    per_thread: int

    def total(self, threads: int) -> int:
        return self.megabytes + self.per_thread * threads


def check(need: AddressSpace, threads: int, what: str) -> None:
    """Reserve the address space for `what` and `threads` threads, and release it; DeviceError if the system refuses."""
    if _has(need.total(threads)):
        return
    fewer = next((count for count in range(threads - 1, 0, -1) if _has(need.total(count))), 0)
    reason = f"{what} needs {need.total(threads)} MB of address space: raise the limit (`ulimit -v`)"
    raise DeviceError(f"{reason}, or use --threads {fewer} or less" if fewer else reason)


def has_limit() -> bool:
    """Return whether this process's address space has a limit."""
    return resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY


def _has(megabytes: int) -> bool:
    if not has_limit():
        return True
    try:
        # This reserves addresses only; it allocates no memory.
        mmap.mmap(-1, megabytes * _MB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE, prot=0).close()
    except (OSError, ValueError, OverflowError):
        return False
    return True
