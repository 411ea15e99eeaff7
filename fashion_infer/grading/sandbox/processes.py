"""The processes of a box as the referee sees them: stopped, continued, watched, killed."""

import contextlib
import os
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Iterator, List, Optional, Tuple

from .box import Limits
from .cgroup import Group

_PAGE = os.sysconf("SC_PAGESIZE")
_KEPT = 1 << 14  # bytes of what it prints that a verdict keeps
_STOPPED = "TtZX"  # states of a thread that runs no instruction until it is continued
_PATIENCE = 5.0  # seconds for a thread to stop: one in the middle of a system call ends that first


class Broken(Exception):
    """A box that ended, or was ended: the message says why."""


class Sandboxed:
    """A box that runs.

    Parameters
    ----------
    process
        What was started: bubblewrap, or the box's own first process.
    first
        Number of the namespace's first process; None without one.
    limits, group
        What holds it; no group where the referee watches memory.
    shared
        Bytes of tensors that it maps: they do not count as its own.
    """

    def __init__(
        self, process: subprocess.Popen, first: Optional[int], limits: Limits, group: Optional[Group], shared: int
    ):
        self._process, self._first, self._limits, self._group, self._shared = process, first, limits, group, shared
        self._namespace = _namespace(first) if first else None
        self._used, self._since = 0.0, time.monotonic()  # while it is stopped its time stands still
        self._printed = bytearray()
        self._count = 0
        self._stopped: List[int] = []
        self._drain = threading.Thread(target=self._read, daemon=True)
        self._drain.start()

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
            When one does not stop.
        """
        end = time.monotonic() + _PATIENCE
        self._stop(self._stopped, end)
        at = time.perf_counter()
        while True:  # looking for others takes milliseconds
            members = self.members()
            self._stop(members, end)
            if set(members) <= set(self._stopped):
                break
            self._stopped = members
        if self._since:
            self._used, self._since = self._used + time.monotonic() - self._since, 0.0
        return at

    def _stop(self, members: List[int], end: float) -> None:
        for pid in members:
            _signal(pid, signal.SIGSTOP)
        while not all(state in _STOPPED for pid in members for state in _states(pid)):
            if time.monotonic() > end:
                raise Broken("it could not be stopped")

    def thaw(self) -> None:
        """Continue what was stopped."""
        self._since = time.monotonic()
        for pid in self._stopped:
            _signal(pid, signal.SIGCONT)

    def watch(self) -> None:
        """Raise Broken when it takes more than it may."""
        if self.remaining <= 0:
            raise Broken(f"it did not end within {self._limits.seconds:g} s")
        if self._count > self._limits.printed:
            raise Broken(f"it printed more than {_size(self._limits.printed)}")
        if self._group is not None:
            return
        members = self._stopped or self.members()
        if sum(map(_threads, members)) > self._limits.threads:
            raise Broken(f"it started more than {self._limits.threads} threads")
        private, resident = (sum(values) for values in zip((0, 0), *map(_memory, members)))
        if private > self._limits.memory or resident - self._shared > self._limits.memory:
            raise Broken(f"it took more than {_size(self._limits.memory)} of memory")

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
        if self._first is not None:
            _signal(self._first, signal.SIGKILL)  # and with it the kernel ends the whole namespace
        # The group at once: of processes that fork, one after the other would never be all.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        if self._group is not None:
            self._group.remove()
        self._drain.join(1.0)

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as pipe:
            while True:
                data = os.read(pipe.fileno(), 1 << 16)
                if not data:
                    return
                self._count += len(data)
                self._printed += data[: max(0, _KEPT - len(self._printed))]


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
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    return [fields[0] for fields in (_stat(f"/proc/{pid}/task/{task}/stat") for task in tasks) if fields]


def _threads(pid: int) -> int:
    fields = _stat(f"/proc/{pid}/stat")
    return int(fields[17]) if fields else 0


def _memory(pid: int) -> Tuple[int, int]:
    """Bytes of its own, and bytes in all."""
    try:
        fields = Path(f"/proc/{pid}/statm").read_text().split()
    except OSError:
        return 0, 0
    return (int(fields[1]) - int(fields[2])) * _PAGE, int(fields[1]) * _PAGE


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _size(count: int) -> str:
    return f"{count / 2**20:,.0f} MiB" if count >= 1 << 20 else f"{count / 2**10:,.0f} KiB"
