"""Measures the resource usage of this process so far, as /usr/bin/time does, and how long its threads waited."""

import os
import resource
import time
from pathlib import Path
from typing import NamedTuple, Optional

TASKS = Path("/proc/self/task")


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
    """Format usage as the two default lines of GNU /usr/bin/time, whose memory averages are always 0 on Linux."""
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
    """Return for how many seconds this process's threads were ready but not running; None if Linux does not count.

    The result is the sum over all threads that have not ended, from the second number of their schedstat.
    """
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
