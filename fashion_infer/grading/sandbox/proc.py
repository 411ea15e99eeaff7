"""Reads what the kernel says in /proc about processes of submissions. Names and paths in it are the submission's."""

import contextlib
import os
import time
from pathlib import Path
from typing import Callable, Dict, Iterator, List, NamedTuple, Optional, TypeVar

STOPPED = (b"T", b"t", b"Z", b"X")  # states of a thread that runs no instruction until it is continued
_ENDED = (b"Z", b"X")
_IN_MEMORY = (b"/dev/zero", b"/memfd:", b"/SYSV", b"/dev/shm/")  # names of mappings that exist only in memory
# Limits on the processor time that a thread may use while it is stopped. It is not 0, because a thread that was
# interrupted on its way into the stop needs a few microseconds to get there.
_STILL = 100e-6  # seconds
_EXITING = 2.0  # seconds in which a process that exits and has no memory any more must end
_INODE = 1792  # bytes of the kernel's memory for a file, folder or link in a tmpfs, which the tmpfs's size leaves out
_STILL_TICKS = 2  # ticks, if the kernel does not count nanoseconds; the thread must use fewer

_Size = TypeVar("_Size")


class Used(NamedTuple):
    nanoseconds: int  # 0 if the kernel does not count them
    ticks: int

    def still(self, before: "Used") -> bool:
        """Return whether the thread has not run since its CPU time was `before`."""
        if self.nanoseconds:
            return self.nanoseconds - before.nanoseconds <= 1e9 * _STILL
        return self.ticks - before.ticks < _STILL_TICKS


class UsedMemory(NamedTuple):
    """Sizes of a process's memory, in bytes."""

    private: int = 0  # with page tables and swap
    shared: int = 0  # resident or not
    files: int = 0  # resident pages of files
    peak: int = 0  # largest resident size so far: private memory, shared memory and files


class Unreadable(Exception):
    """Raised if /proc does not say what a live process uses."""


def session_of(pid: int) -> int:
    fields = _stat(f"/proc/{pid}/stat")
    return int(fields[3]) if fields else 0


def in_session(session: int) -> Iterator[int]:
    """Yield the numbers of a session's processes. seccomp lets no process of a box leave its session."""
    return (int(name) for name in os.listdir("/proc") if name.isdigit() and session_of(int(name)) == session)


def states(pid: int) -> List[bytes]:
    return [fields[0] for fields in (_stat(f"{task}/stat") for task in tasks(pid)) if fields]


def alive(pid: int) -> bool:
    return not all(state in _ENDED for state in states(pid))


def tasks(pid: int) -> List[str]:
    try:
        return [f"/proc/{pid}/task/{task}" for task in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return []


def used(pid: int) -> Dict[str, Used]:
    """Return the CPU time of each thread of a process, by the thread's folder in /proc."""
    found = {}
    for task in tasks(pid):
        fields = _stat(f"{task}/stat")
        if fields:
            found[task] = Used(_nanoseconds(task), int(fields[11]) + int(fields[12]))
    return found


def memory(pid: int) -> UsedMemory:
    """Return the memory of a process, nothing if it has ended; Unreadable if it lives and the kernel does not say."""
    return _read(pid, _memory) or UsedMemory()


def inodes(pid: int, folder: str) -> int:
    """Return how many bytes the files in a process's tmpfs take, without their contents. Errors are as in `memory`."""

    def count(pid: int) -> Optional[int]:
        with contextlib.suppress(OSError):
            about = os.statvfs(f"/proc/{pid}/root{folder}")
            return about.f_files - about.f_ffree
        return None

    return _INODE * (_read(pid, count) or 0)


def _read(pid: int, read: Callable[[int], Optional[_Size]]) -> Optional[_Size]:
    end = time.monotonic() + _EXITING
    while True:
        found = read(pid)
        if found is not None or not alive(pid):
            return found
        if time.monotonic() > end:  # its first thread has ended, or it is not dumpable
            raise Unreadable
        time.sleep(1e-3)


def _memory(pid: int) -> Optional[UsedMemory]:
    sizes = {}
    for line in _lines(f"/proc/{pid}/status"):
        name, _, size = line.partition(b":\t")
        if name in (b"RssAnon", b"VmSwap", b"VmPTE", b"RssShmem", b"RssFile", b"VmHWM", b"HugetlbPages"):
            sizes[name] = 1024 * int(size.split()[0])
    mapped, lines = 0, _lines(f"/proc/{pid}/maps")
    for line in lines:
        fields = line.split(None, 5)
        if len(fields) == 6 and fields[1].endswith(b"s") and fields[5].startswith(_IN_MEMORY):
            start, end = (int(address, 16) for address in fields[0].split(b"-"))
            mapped += end - start
    if b"VmHWM" not in sizes or not any(lines):
        return None
    own = sum(sizes.get(name, 0) for name in (b"RssAnon", b"VmSwap", b"VmPTE", b"HugetlbPages"))
    return UsedMemory(own, max(mapped, sizes.get(b"RssShmem", 0)), sizes.get(b"RssFile", 0), sizes[b"VmHWM"])


def _nanoseconds(task: str) -> int:
    with contextlib.suppress(OSError, ValueError):
        return int(Path(f"{task}/schedstat").read_text().split()[0])
    return 0


def _lines(path: str) -> List[bytes]:
    """Return the lines of a file in /proc, as bytes; none if the process has ended or the file cannot be read."""
    try:
        return Path(path).read_bytes().split(b"\n")
    except OSError:
        return []


def _stat(path: str) -> List[bytes]:
    return b"\n".join(_lines(path)).rpartition(b")")[2].split()
