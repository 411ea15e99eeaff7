"""What this process has used so far, as /usr/bin/time counts it."""

import os
import resource
import time
from typing import NamedTuple


class Usage(NamedTuple):
    """Times in seconds since the process started; memory in bytes."""

    wall: float
    user: float
    system: float
    peak_memory: int


def usage() -> Usage:
    """Wall, user and system time and peak resident memory of the whole process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return Usage(_wall(), used.ru_utime, used.ru_stime, used.ru_maxrss * 1024)


def _wall() -> float:
    # Field 22 of /proc/self/stat: start after boot, in clock ticks (proc(5)). The name in field 2 may hold blanks.
    with open("/proc/self/stat") as stat:
        ticks = int(stat.read().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
