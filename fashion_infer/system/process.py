"""This process: its resource usage, its threads' waits, its memory on devices, and its limit of address space.

Only the standard library is used, because the command line checks the limit before other imports.
"""

import ctypes
import mmap
import os
import resource
import time
from pathlib import Path
from typing import List, NamedTuple, Optional, Tuple

from ..errors import DeviceError

TASKS = Path("/proc/self/task")
_UNKNOWN = 2**64 - 1  # the driver returns this if it does not know a process's memory
_MOST = 1024  # largest number of processes on a device
_MB = 1 << 20
_NORESERVE = 0x4000  # MAP_NORESERVE, which the module mmap lacks before Python 3.13


class Usage(NamedTuple):
    """Resource usage of a process. Times are in seconds since its start, memory is in bytes."""

    wall: float
    user: float
    system: float
    peak_memory: int
    major_faults: int = 0
    minor_faults: int = 0
    blocks_in: int = 0  # file system blocks of 512 bytes
    blocks_out: int = 0
    swaps: int = 0


def usage() -> Usage:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return Usage(
        _wall(),
        used.ru_utime,
        used.ru_stime,
        _peak_memory(used),
        used.ru_majflt,
        used.ru_minflt,
        used.ru_inblock,
        used.ru_oublock,
        used.ru_nswap,
    )


def as_time_prints(u: Usage) -> str:
    hours, rest = divmod(u.wall, 3600)
    minutes, seconds = divmod(rest, 60)
    # h:mm:ss from one hour, m:ss.cc below; the CPU share is truncated, not rounded
    elapsed = (
        f"{hours:.0f}:{minutes:02.0f}:{int(seconds):02d}"
        if hours
        else f"{minutes:.0f}:{int(seconds * 100) / 100:05.2f}"
    )
    share = int(100 * (u.user + u.system) / u.wall) if u.wall else 0
    return (
        f"{u.user:.2f}user {u.system:.2f}system {elapsed}elapsed {share}%CPU "
        f"(0avgtext+0avgdata {u.peak_memory // 1024}maxresident)k\n"
        f"{u.blocks_in}inputs+{u.blocks_out}outputs ({u.major_faults}major+{u.minor_faults}minor)pagefaults "
        f"{u.swaps}swaps"
    )


def _peak_memory(used) -> int:
    # VmHWM is the peak of this program alone. ru_maxrss also includes the memory of the parent process when it forked
    # (650 MB under `report`); it is used only where VmHWM is missing, as in sandboxes.
    with open("/proc/self/status") as status:
        own = next((int(line.split()[1]) for line in status if line.startswith("VmHWM:")), used.ru_maxrss)
    return own * 1024


def _wall() -> float:
    # Field 22 of /proc/self/stat: start after boot, in clock ticks (proc(5)). The name in field 2 may have blanks.
    with open("/proc/self/stat") as stat:
        ticks = int(stat.read().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


def waited() -> Optional[float]:
    total = 0
    try:
        for thread in os.listdir(TASKS):
            file = TASKS / thread / "schedstat"
            try:
                total += int(file.read_text().split()[1])
            except (FileNotFoundError, ProcessLookupError):
                if file.parent.exists():  # a thread that has ended does not count
                    return None
    except (OSError, ValueError, IndexError):
        return None
    return total / 1e9


class _NvmlProcess(ctypes.Structure):
    _fields_ = [
        ("pid", ctypes.c_uint),
        ("used", ctypes.c_ulonglong),
        ("instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    ]


def device_memory() -> Optional[int]:
    """Return the bytes of device memory of this process on all devices; None if the driver does not say."""
    try:
        listed = _listed_processes()
    except (OSError, AttributeError):
        return None
    found = [used for pid, used in listed if pid == os.getpid()] or [used for _, used in listed if len(listed) == 1]
    return sum(found) if found and _UNKNOWN not in found else None


def _listed_processes() -> List[Tuple[int, int]]:
    nvml = ctypes.CDLL("libnvidia-ml.so.1")
    if nvml.nvmlInit_v2():
        return []
    try:
        count, found = ctypes.c_uint(), []
        nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
        for index in range(count.value):
            device, number, processes = ctypes.c_void_p(), ctypes.c_uint(_MOST), (_NvmlProcess * _MOST)()
            if nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device)):
                continue
            if not nvml.nvmlDeviceGetComputeRunningProcesses_v3(device, ctypes.byref(number), processes):
                found += [(one.pid, one.used) for one in processes[: number.value]]
        return found
    finally:
        nvml.nvmlShutdown()


class AddressSpace(NamedTuple):
    """Address space that a library or a command needs, in megabytes: a fixed part and a part per thread."""

    megabytes: int  # without threads
    per_thread: int

    def total(self, threads: int) -> int:
        return self.megabytes + self.per_thread * threads


def check_address_space(need: AddressSpace, threads: int, what: str) -> None:
    """Reserve address space and release it; DeviceError if refused, as libraries would abort or hang later."""
    if _fits(need.total(threads)):
        return
    fewer = next((count for count in range(threads - 1, 0, -1) if _fits(need.total(count))), 0)
    reason = f"{what} needs {need.total(threads)} MB of address space: raise the limit (`ulimit -v`)"
    raise DeviceError(f"{reason}, or use --threads {fewer} or less" if fewer else reason)


def has_address_limit() -> bool:
    return resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY


def _fits(megabytes: int) -> bool:
    if not has_address_limit():
        return True
    try:
        # This reserves addresses only; it allocates no memory.
        mmap.mmap(-1, megabytes * _MB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE, prot=0).close()
    except (OSError, ValueError, OverflowError):
        return False
    return True
