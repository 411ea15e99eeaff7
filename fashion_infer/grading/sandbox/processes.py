"""The processes of a box as the referee sees them: stopped, continued, watched, killed."""

import contextlib
import os
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Collection, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

from .box import Box
from .cgroup import Group

_IN_MEMORY = ("/dev/zero", "/memfd:", "/SYSV", "/dev/shm/")  # mappings of what lies in memory alone
_KEPT = 1 << 14  # bytes of what it prints that a verdict keeps
_STOPPED = "TtZX"  # states of a thread that runs no instruction until it is continued
# Seconds of processor time of a thread while it is stopped: one that was interrupted on its way into the stop gets
# there a few microseconds later. Where the kernel counts ticks alone, two.
_STILL, _STILL_TICKS = 100e-6, 2
_PATIENCE = 5.0  # seconds for a thread to stop: one in the middle of a system call ends that first


class Broken(Exception):
    """A box that ended, or was ended: the message says why."""


class Used(NamedTuple):
    """CPU time and state of a thread."""

    nanoseconds: int
    ticks: int

    def still(self, before: "Used") -> bool:
        """Whether it has not run since."""
        if self.nanoseconds:
            return self.nanoseconds - before.nanoseconds <= 1e9 * _STILL
        return self.ticks - before.ticks < _STILL_TICKS


class Sandboxed:
    """A box that runs.

    Parameters
    ----------
    process
        What was started: bubblewrap, or the box's own first process.
    first
        Number of the namespace's first process; None without one.
    box, group
        What holds it; no group where the referee watches memory.
    """

    def __init__(self, process: subprocess.Popen, first: Optional[int], box: Box, group: Optional[Group]):
        self._process, self._first, self._box, self._limits, self._group = process, first, box, box.limits, group
        self._namespace = _namespace(first) if first else None
        self._used, self._since = 0.0, time.monotonic()  # while it is stopped its time stands still
        self._printed = bytearray()
        self._count = 0
        self._stopped: List[int] = []
        self._ran: Dict[str, Used] = {}  # by each thread that is stopped, until it was
        self._drain = threading.Thread(target=self._read, daemon=True)
        self._drain.start()
        self.thread = threading.get_ident()
        _running.add(self)

    @property
    def printed(self) -> str:
        """The beginning of what it printed."""
        return self._printed.decode(errors="replace")

    @property
    def remaining(self) -> float:
        """Seconds that are left to it, of those in which it ran."""
        running = time.monotonic() - self._since if self._since else 0.0
        return self._limits.seconds - self._used - running

    def members(self) -> List[int]:
        """Its processes, without bubblewrap's own."""
        if self._first is None:
            return [pid for pid in _numbers() if _group_of(pid) == self._process.pid]
        # The namespace's first process is bubblewrap's own, which waits for the others.
        return [pid for pid in _numbers() if pid != self._first and _namespace(pid) == self._namespace]

    def freeze(self) -> float:
        """Stop every thread: when, by time.perf_counter(), those that are known had stopped.

        Raises
        ------
        Broken
            When one does not stop, or it has more threads or memory than it may.
        """
        end = time.monotonic() + _PATIENCE
        self._stop(self._stopped, end)
        at = time.perf_counter()
        self._ran = _used(self._stopped)
        while True:  # looking for others takes milliseconds
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
        self._look(self._stopped)  # catches threads that ran less than the time between two looks
        return at

    def _stop(self, members: List[int], end: float) -> None:
        for pid in members:
            _signal(pid, signal.SIGSTOP)
        while not all(state in _STOPPED for pid in members for state in _states(pid)):
            if time.monotonic() > end:
                raise Broken("it could not be stopped")

    def thaw(self) -> float:
        """Continue what was stopped: when, by time.perf_counter().

        Raises
        ------
        Broken
            When any of it ran meanwhile.
        """
        for thread, used in _used(self._stopped).items():
            if not used.still(self._ran.get(thread, Used(0, 0))):
                raise Broken("it ran while it was stopped")
        if self._group is not None:
            self._group.thaw()  # a stopped process stays stopped until it is continued
        at, self._since = time.perf_counter(), time.monotonic()
        for pid in self._stopped:
            _signal(pid, signal.SIGCONT)
        return at

    def watch(self) -> None:
        """Raise Broken when it takes more than it may."""
        if self.remaining <= 0:
            raise Broken(f"it did not end within {self._limits.seconds:g} s")
        if self._count > self._limits.printed:
            raise Broken(f"it printed more than {_size(self._limits.printed)}")
        # To look for others takes milliseconds.
        self._look(self.members() if self._box.processes or not self._stopped else self._stopped)

    def _look(self, members: List[int]) -> None:
        """At threads and memory, where no cgroup bounds them."""
        if self._group is not None:
            return
        if sum(map(_threads, members)) > self._limits.threads:
            raise Broken(f"it started more than {self._limits.threads} threads")
        private, shared, files = (sum(values) for values in zip((0, 0, 0), *map(_memory, members)))
        most, own = self._limits.memory, self._box.shared
        if private + max(0, shared - own) > most or files > most + own:
            raise Broken(f"it took more than {_size(most)} of memory")

    def ended(self, patience: float = 1.0) -> Optional[str]:
        """How it ended by itself, in words; None while it runs."""
        try:
            code = self._process.wait(patience)
        except subprocess.TimeoutExpired:
            return None
        if self._group is not None and self._group.out_of_memory:
            return f"it took more than {_size(self._limits.memory)} of memory"
        number = -code if code < 0 else code - 128
        if number > 0:
            with contextlib.suppress(ValueError):
                return f"it crashed: {signal.Signals(number).name}"
        return f"it ended the process with exit code {code}"

    def wait(self) -> int:
        """Wait for its end, watching; its exit code."""
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return self._process.wait(0.05)
            self.watch()

    def kill(self) -> None:
        """End all of it."""
        _running.discard(self)
        self.end()
        self._process.wait()
        if self._group is not None:
            self._group.remove()
        self._drain.join(1.0)

    def end(self) -> None:
        """End its processes, and let those who wait for them clean up."""
        if self._first is not None:
            _signal(self._first, signal.SIGKILL)  # the kernel then ends the whole namespace
        # The group at once: of processes that fork, one after the other would never be all.
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
    """End the boxes that some threads, by their identifiers, have started."""
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


def _stat(path: str) -> List[str]:
    """The fields of a stat file behind the name, which may hold spaces; none when it has gone."""
    try:
        return Path(path).read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


def _group_of(pid: int) -> int:
    fields = _stat(f"/proc/{pid}/stat")
    return int(fields[2]) if fields else 0


def _states(pid: int) -> List[str]:
    return [fields[0] for fields in (_stat(f"{task}/stat") for task in _tasks(pid)) if fields]


def _tasks(pid: int) -> List[str]:
    """The folders of its threads."""
    try:
        return [f"/proc/{pid}/task/{task}" for task in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return []


def _threads(pid: int) -> int:
    fields = _stat(f"/proc/{pid}/stat")
    return int(fields[17]) if fields else 0


def _used(members: List[int]) -> "Dict[str, Used]":
    """CPU time and state of each thread of some processes."""
    found = {}
    for pid in members:
        for task in _tasks(pid):
            fields = _stat(f"{task}/stat")
            if fields:
                found[task] = Used(_nanoseconds(task), int(fields[11]) + int(fields[12]))
    return found


def _nanoseconds(task: str) -> int:
    """On a processor; 0 where the kernel does not count it."""
    with contextlib.suppress(OSError, ValueError):
        return int(Path(f"{task}/schedstat").read_text().split()[0])
    return 0


def _memory(pid: int) -> Tuple[int, int, int]:
    """Bytes of its own, page tables included; that it shares, resident or not; and of resident files."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines()
        maps = Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines()
    except OSError:
        return 0, 0, 0
    sizes = {line.split(":")[0]: 1024 * int(line.split()[1]) for line in lines if line.endswith(" kB")}
    mapped = 0
    for line in maps:
        fields = line.split(None, 5)
        if fields[1][3] == "s" and fields[-1].startswith(_IN_MEMORY):
            start, end = (int(address, 16) for address in fields[0].split("-"))
            mapped += end - start
    own = sum(sizes.get(name, 0) for name in ("RssAnon", "VmSwap", "VmPTE"))
    return own, max(mapped, sizes.get("RssShmem", 0)), sizes.get("RssFile", 0)


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _size(count: int) -> str:
    return f"{count / 2**20:,.0f} MiB" if count >= 1 << 20 else f"{count / 2**10:,.0f} KiB"
