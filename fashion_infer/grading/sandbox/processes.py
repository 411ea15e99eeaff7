"""The processes of a running box: the referee stops, continues, monitors and kills them."""

import contextlib
import os
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Collection, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

from ...judging import reasons
from ...judging.callers.isolated import abort_reason, signal_name
from ...judging.calls import Cause, Failed
from .box import Box
from .cgroup import Group

_IN_MEMORY = (b"/dev/zero", b"/memfd:", b"/SYSV", b"/dev/shm/")  # names of mappings that exist only in memory
_KEPT = 1 << 14  # number of bytes of printed output that a verdict keeps
_STOPPED = (b"T", b"t", b"Z", b"X")  # states of a thread that runs no instruction until it is continued
# Limits on the processor time that a thread may use while it is stopped. It is not 0, because a thread that was
# interrupted on its way into the stop needs a few microseconds to get there.
_STILL = 100e-6  # seconds
_STILL_TICKS = 2  # ticks, if the kernel does not count nanoseconds; the thread must use fewer
# Codes of signals that tell more than that a process crashed.
_SIGNALS: Dict[int, str] = {signal.SIGFPE: "divides_by_zero", signal.SIGILL: "illegal_instruction"}
_PATIENCE = 5.0  # seconds in which a thread must stop; a thread in a system call completes the call first


class Broken(Failed):
    """Raised when a box ended unexpectedly, or must be ended because it exceeds a limit. The code says why."""

    def __str__(self) -> str:
        return reasons.sentence(Cause(self.code, self.details))


class Used(NamedTuple):
    """CPU time of a thread, in two units."""

    nanoseconds: int  # 0 if the kernel does not count them
    ticks: int

    def still(self, before: "Used") -> bool:
        """Return whether the thread has not run since its CPU time was `before`."""
        if self.nanoseconds:
            return self.nanoseconds - before.nanoseconds <= 1e9 * _STILL
        return self.ticks - before.ticks < _STILL_TICKS


class Sandboxed:
    """A running box.

    `process` was started: bubblewrap or, without it, the box's first process. `first` is the number of the first
    process in the box's PID namespace; None without a namespace. Without a cgroup (`group`), the referee checks memory
    itself.
    """

    def __init__(self, process: subprocess.Popen, first: Optional[int], box: Box, group: Optional[Group]):
        self._process, self._first, self._box, self._limits, self._group = process, first, box, box.limits, group
        self._namespace = _namespace(first) if first else None
        # `_used` is the time for which the box ran until it was last stopped. `_since` is the moment at which it was
        # last continued, or 0 while it is stopped.
        self._used, self._since = 0.0, time.monotonic()
        self._printed = bytearray()
        self._count = 0
        self._stopped: List[int] = []
        self._ran: Dict[str, Used] = {}  # CPU time that each stopped thread had used when it stopped
        self._drain = threading.Thread(target=self._read, daemon=True)
        self._drain.start()
        self.thread = threading.get_ident()
        _running.add(self)

    @property
    def printed(self) -> str:
        """The beginning of the box's printed output."""
        return self._printed.decode(errors="replace")

    @property
    def remaining(self) -> float:
        """Number of seconds for which the box may still run."""
        running = time.monotonic() - self._since if self._since else 0.0
        return self._limits.seconds - self._used - running

    def members(self) -> List[int]:
        """Return the numbers of the box's processes, without that of bubblewrap."""
        if self._first is None:
            return [pid for pid in _numbers() if _group_of(pid) == self._process.pid]
        # Leave out the first process of the namespace: it is bubblewrap's own, which waits for the others.
        return [pid for pid in _numbers() if pid != self._first and _namespace(pid) == self._namespace]

    def freeze(self) -> float:
        """Stop all threads; return the time.perf_counter() at which the threads of the known processes had stopped.

        Broken if a thread does not stop, or the box has more threads or memory than allowed.
        """
        end = time.monotonic() + _PATIENCE
        self._stop(self._stopped, end)
        at = time.perf_counter()
        self._ran = _used(self._stopped)
        while True:  # search for further processes now, because the search takes milliseconds, which must not count
            members = self.members()
            self._stop(members, end)
            self._ran = {**_used(members), **self._ran}
            if set(members) <= set(self._stopped):
                break
            self._stopped = members
        if self._group is not None:
            self._group.freeze()
        if self._since:
            self._used, self._since = self._used + time.monotonic() - self._since, 0.0
        self._look(self._stopped)  # `watch` misses threads that were started after its last check
        return at

    def _stop(self, members: List[int], end: float) -> None:
        for pid in members:
            _signal(pid, signal.SIGSTOP)
        while not all(state in _STOPPED for pid in members for state in _states(pid)):
            if time.monotonic() > end:
                raise Broken("not_stopped")

    def thaw(self) -> float:
        """Continue the stopped processes; return when, by time.perf_counter(). Broken if a thread ran meanwhile."""
        for thread, used in _used(self._stopped).items():
            if not used.still(self._ran.get(thread, Used(0, 0))):
                raise Broken("ran_while_stopped")
        if self._group is not None:
            self._group.thaw()  # a stopped process stays stopped until it is continued
        at, self._since = time.perf_counter(), time.monotonic()
        for pid in self._stopped:
            _signal(pid, signal.SIGCONT)
        return at

    def watch(self) -> None:
        """Raise Broken if the box exceeds a limit."""
        if self.remaining <= 0:
            raise Broken("time_limit", seconds=self._limits.seconds)
        if self._count > self._limits.printed:
            raise Broken("printed_limit", limit=self._limits.printed)
        # Search for further processes only if the box may start some, because the search takes milliseconds.
        self._look(self.members() if self._box.processes or not self._stopped else self._stopped)

    def _look(self, members: List[int]) -> None:
        """Raise Broken if these processes have too many threads or too much memory, unless a cgroup limits them."""
        if self._group is not None:
            return
        try:
            self._measure(members)
        except (ValueError, IndexError):  # a submission has changed what /proc says
            raise Broken("not_measured") from None

    def _measure(self, members: List[int]) -> None:
        if sum(map(_threads, members)) > self._limits.threads:
            raise Broken("threads_limit", limit=self._limits.threads)
        private, shared, files = (sum(values) for values in zip((0, 0, 0), *map(_memory, members)))
        most, own = self._limits.memory, self._box.shared
        if private + max(0, shared - own) > most or files > most + own:
            raise Broken("memory_limit", limit=most)

    def ended(self, patience: float = 1.0) -> Optional[Broken]:
        """Wait for at most `patience` seconds; return how the box has ended, or None if it still runs."""
        try:
            code = self._process.wait(patience)
        except subprocess.TimeoutExpired:
            return None
        if self._group is not None and self._group.out_of_memory:
            return Broken("memory_limit", limit=self._limits.memory)
        number = -code if code < 0 else code - 128
        if number == signal.SIGABRT:
            self._drain.join(1.0)
            why, words = abort_reason(self.printed)
            return Broken(why, signal=signal_name(number), words=words)
        if 0 < number < signal.NSIG:
            return Broken(_SIGNALS.get(number, "crash"), signal=signal_name(number))
        return Broken("exit", status=code)

    def wait(self) -> int:
        """Wait until the box ends, checking its limits; return its exit code."""
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return self._process.wait(0.05)
            self.watch()

    def kill(self) -> None:
        """Kill all processes of the box."""
        _running.discard(self)
        self.end()
        self._process.wait()
        if self._group is not None:
            self._group.remove()
        self._drain.join(1.0)

    def end(self) -> None:
        """Kill the box's processes, and leave the clean-up to the thread that waits for them."""
        if self._first is not None:
            _signal(self._first, signal.SIGKILL)  # the kernel then ends all processes of the namespace
        # Kill the whole process group in one call: processes that fork would escape if killed one after another.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as pipe:
            while True:
                data = os.read(pipe.fileno(), 1 << 16)
                if not data:
                    return
                self._count += len(data)
                self._printed += data[: max(0, _KEPT - len(self._printed))]


_running: Set[Sandboxed] = set()


def end_all(threads: Collection[int]) -> None:
    """End the boxes that were started by the threads with these identifiers."""
    for running in list(_running):
        if running.thread in threads:
            running.end()


def _numbers() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


def _namespace(pid: int) -> Optional[str]:
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return None


def _lines(path: str) -> List[bytes]:
    """Return the lines of a file in /proc; none if the process has ended.

    They are bytes, because a process chooses its name and the paths of its files, which may hold any character.
    """
    try:
        return Path(path).read_bytes().split(b"\n")
    except OSError:
        return []


def _stat(path: str) -> List[bytes]:
    """Return the fields of a stat file that follow the process's name; an empty list if the process has ended.

    The name is skipped because it may contain spaces.
    """
    return b"\n".join(_lines(path)).rpartition(b")")[2].split()


def _group_of(pid: int) -> int:
    fields = _stat(f"/proc/{pid}/stat")
    return int(fields[2]) if fields else 0


def _states(pid: int) -> List[bytes]:
    return [fields[0] for fields in (_stat(f"{task}/stat") for task in _tasks(pid)) if fields]


def _tasks(pid: int) -> List[str]:
    """Return the folders in /proc of a process's threads."""
    try:
        return [f"/proc/{pid}/task/{task}" for task in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return []


def _threads(pid: int) -> int:
    fields = _stat(f"/proc/{pid}/stat")
    return int(fields[17]) if fields else 0


def _used(members: List[int]) -> "Dict[str, Used]":
    """Return the CPU time of each thread of these processes, by the thread's folder in /proc."""
    found = {}
    for pid in members:
        for task in _tasks(pid):
            fields = _stat(f"{task}/stat")
            if fields:
                found[task] = Used(_nanoseconds(task), int(fields[11]) + int(fields[12]))
    return found


def _nanoseconds(task: str) -> int:
    """Return a thread's time on a processor, in nanoseconds; 0 if the kernel does not count it."""
    with contextlib.suppress(OSError, ValueError):
        return int(Path(f"{task}/schedstat").read_text().split()[0])
    return 0


def _memory(pid: int) -> Tuple[int, int, int]:
    """Return three sizes of a process's memory, in bytes.

    They are its private memory with page tables, its shared memory (resident or not), and its resident files.
    """
    sizes = {}
    for line in _lines(f"/proc/{pid}/status"):
        name, _, size = line.partition(b":\t")
        if name in (b"RssAnon", b"VmSwap", b"VmPTE", b"RssShmem", b"RssFile"):
            sizes[name] = 1024 * int(size.split()[0])
    mapped = 0
    for line in _lines(f"/proc/{pid}/maps"):
        fields = line.split(None, 5)
        if len(fields) == 6 and fields[1].endswith(b"s") and fields[5].startswith(_IN_MEMORY):
            start, end = (int(address, 16) for address in fields[0].split(b"-"))
            mapped += end - start
    own = sum(sizes.get(name, 0) for name in (b"RssAnon", b"VmSwap", b"VmPTE"))
    return own, max(mapped, sizes.get(b"RssShmem", 0)), sizes.get(b"RssFile", 0)


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
