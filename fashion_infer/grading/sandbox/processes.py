"""The processes of a running box: the referee stops, continues, monitors and kills them."""

import contextlib
import os
import signal
import subprocess
import threading
import time
from typing import Collection, Dict, List, Optional, Set

from ...judging import reasons
from ...judging.callers.isolated import abort_reason, signal_name
from ...judging.calls import Cause, Failed
from . import proc
from .box import TEMPORARY, Box
from .cgroup import Group
from .gate import Gate
from .proc import Used, UsedMemory

_KEPT = 1 << 14  # number of bytes of printed output that a verdict keeps
# Codes of signals that tell more than that a process crashed.
_SIGNALS: Dict[int, str] = {signal.SIGFPE: "divides_by_zero", signal.SIGILL: "illegal_instruction"}
_PATIENCE = 5.0  # seconds in which a thread must stop; a thread in a system call completes the call first
_MORE_FILES = 64 << 20  # bytes of files that a submission may map in addition to the worker's, before they count


class Broken(Failed):
    """Raised when a box ended unexpectedly, or must be ended because it exceeds a limit. The code says why."""

    def __str__(self) -> str:
        return reasons.sentence(Cause(self.code, self.details))


class Sandboxed:
    """A running box. `process` was started: bubblewrap or, without it, the box's first process. `first` is the number
    of the first process in the box's PID namespace, which is bubblewrap's and waits for the others; None without a
    namespace. Without a cgroup (`group`), the referee checks memory itself."""

    def __init__(self, process: subprocess.Popen, first: Optional[int], box: Box, group: Optional[Group]):
        self._process, self._first, self._box, self._limits, self._group = process, first, box, box.limits, group
        self._worker = 0  # the only process that may live while a clock runs; 0 before `settle`
        self._gate: Optional[Gate] = None
        self._began = UsedMemory()  # the worker's memory before it loads a submission
        # `_used` is the time for which the box ran until it was last stopped. `_since` is the moment at which it was
        # last continued, or 0 while it is stopped.
        self._used, self._since = 0.0, time.monotonic()
        self._printed = bytearray()
        self._count = 0
        self._ran: Dict[str, Used] = {}  # CPU time that each stopped thread had used when it stopped
        self._drain = threading.Thread(target=self._read, daemon=True)
        self._drain.start()
        self.thread = threading.get_ident()
        _running.add(self)

    @property
    def printed(self) -> str:
        return self._printed.decode(errors="replace")

    @property
    def remaining(self) -> float:
        running = time.monotonic() - self._since if self._since else 0.0
        return self._limits.seconds - self._used - running

    def members(self) -> List[int]:
        session = proc.session_of(self._first) if self._first else self._process.pid
        ours = (self._first, self._process.pid) if self._first else ()
        return [pid for pid in proc.in_session(session) if pid not in ours]

    def settle(self, gate: Optional[Gate] = None) -> None:
        """Remember the worker, before it loads a submission; `gate` answers whether it may start processes. The first
        process of the namespace, which has no filter, is stopped until the box ends. Broken if there are others."""
        self._gate = gate
        members = self.members()
        if len(members) != 1:
            raise Broken("not_stopped")
        self._worker = members[0]
        self._began = proc.memory(self._worker)
        if self._first:
            self._stop(self._first)

    def allow_processes(self) -> None:
        """Let the worker start processes until the box is stopped again."""
        if self._gate is not None:
            self._gate.set(True)

    def freeze(self) -> float:
        """Stop everything of the submission; return the time.perf_counter() at which all threads had stopped. Broken if
        a thread does not stop, if another process is alive, or if threads or memory exceed a limit."""
        if self._gate is not None and self._gate.open:
            self._end_helpers()
        self._stop(self._worker)
        at = time.perf_counter()
        if self._since:
            self._used, self._since = self._used + time.monotonic() - self._since, 0.0
        if self._group is not None:
            self._group.freeze(True)
        if any(pid != self._worker and proc.alive(pid) for pid in self.members()):
            raise Broken("not_stopped")
        self._ran = self._times()
        self.watch()  # its last check misses what was started or printed afterwards
        if not proc.alive(self._worker):  # what it used before it ended cannot be measured
            raise self.ended() or Broken("closed_channel")
        return at

    def _end_helpers(self) -> None:
        """Refuse to start further processes, and end those that the worker has started."""
        assert self._gate is not None
        self._gate.set(False)
        self._look(self.members())
        end, stopped = time.monotonic() + _PATIENCE, False
        while True:
            others = [pid for pid in self.members() if pid != self._worker and proc.alive(pid)]
            if stopped and not others:
                return
            for pid in others:
                _signal(pid, signal.SIGKILL)
            if others:
                time.sleep(1e-3)
            else:  # once the worker is stopped, no call that was allowed is under way, so another search finds all
                self._stop(self._worker)
                stopped = True
            if time.monotonic() > end:
                raise Broken("not_stopped")

    def _stop(self, pid: int) -> None:
        end = time.monotonic() + _PATIENCE
        _signal(pid, signal.SIGSTOP)
        while not all(state in proc.STOPPED for state in proc.states(pid)):
            if time.monotonic() > end:
                raise Broken("not_stopped")

    def _times(self) -> Dict[str, Used]:
        return {**proc.used(self._worker), **(proc.used(self._first) if self._first else {})}

    def thaw(self) -> float:
        """Continue the worker; return when, by time.perf_counter(). Broken if a thread ran meanwhile."""
        if any(not used.still(self._ran.get(thread, Used(0, 0))) for thread, used in self._times().items()):
            raise Broken("ran_while_stopped")
        if self._group is not None:
            self._group.freeze(False)  # a stopped process stays stopped until it is continued
        at, self._since = time.perf_counter(), time.monotonic()
        _signal(self._worker, signal.SIGCONT)
        return at

    def watch(self) -> None:
        if self.remaining <= 0:
            raise Broken("time_limit", seconds=self._limits.seconds)
        if self._count > self._limits.printed:
            raise Broken("printed_limit", limit=self._limits.printed)
        # Search for further processes only if the box may start some, because the search takes milliseconds.
        alone = self._worker and not (self._gate is not None and self._gate.open)
        self._look([self._worker] if alone else self.members())

    def _look(self, members: List[int]) -> None:
        """Raise Broken if these processes have, or in their cgroup had, too many threads or too much memory."""
        if self._group is not None:
            return self._check_group()
        try:
            self._measure(members)
        except (ValueError, IndexError, proc.Unreadable):
            raise Broken("not_measured") from None

    def _check_group(self) -> None:
        code = self._group.exceeded if self._group is not None else None
        if code is not None:
            raise Broken(code, limit=self._limits.memory if code == "memory_limit" else self._limits.threads)

    def _measure(self, members: List[int]) -> None:
        if sum(len(proc.tasks(pid)) for pid in members) > self._limits.threads:
            raise Broken("threads_limit", limit=self._limits.threads)
        found = {pid: proc.memory(pid) for pid in members}
        most, own = self._limits.memory, self._box.shared
        private, shared, files = (sum(one[at] for one in found.values()) for at in range(3))
        if self._first and self._worker:  # before `settle`, its root may still be the system's
            private += proc.inodes(self._first, TEMPORARY)
        over = private + max(0, shared - own) > most or files > most + own
        worker = found.get(self._worker)
        # Memory that was freed before this check. On a GPU the driver's files are too large for this.
        if worker is not None and worker.peak and not self._box.gpu:
            more = min(_MORE_FILES, max(0, worker.files - self._began.files))
            over = over or worker.peak - own - self._began.files - more > most
        if over:
            raise Broken("memory_limit", limit=most)

    def ended(self, patience: float = 1.0) -> Optional[Broken]:
        """Wait for at most `patience` seconds; return how the box has ended, or None if it still runs."""
        if self._first is not None:
            _signal(self._first, signal.SIGCONT)  # it ends when the worker has ended
        try:
            code = self._process.wait(patience)
        except subprocess.TimeoutExpired:
            return None
        try:
            self._check_group()
        except Broken as broken:
            return broken
        number = -code if code < 0 else code - 128
        if number == signal.SIGABRT:
            self._drain.join(1.0)
            why, words = abort_reason(self.printed)
            return Broken(why, signal=signal_name(number), words=words)
        if 0 < number < signal.NSIG:
            return Broken(_SIGNALS.get(number, "crash"), signal=signal_name(number))
        return Broken("exit", status=code)

    def wait(self) -> int:
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = self._process.wait(0.05)
                self._check_group()
                return code
            self.watch()

    def kill(self) -> None:
        _running.discard(self)
        self.end()
        self._process.wait()
        if self._gate is not None:
            self._gate.end()
            self._gate = None
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
    for running in list(_running):
        if running.thread in threads:
            running.end()


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
