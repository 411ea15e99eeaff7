"""Jobs that call a kernel file, each in its own process, so that a crash, an exit or a time limit ends only one job.

A server process imports modules that every job needs, without CUDA and without the kernel's code, and forks for each
job. The forked process loads the kernel, runs the job's function, and sends the result. Before each call it notes the
call in shared memory, and if it dies, the kernel's siginfo of the fault, so that the server can say why.
"""

import contextlib
import ctypes
import fcntl
import importlib
import json
import mmap
import os
import platform
import re
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import time
import traceback
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from ...errors import CheckFailed, FashionInferError
from ...kernel_files import formats, loading
from ...system.isolation import signal_name
from ..calls import Cause
from . import here

# Code of the server process. It imports modules from the same folders as this process, not from the current folder.
_SERVER = f"import sys; sys.path[:] = sys.argv[2].split(':'); from {__name__} import serve; serve(int(sys.argv[1]))"
_LOOK = 0.05  # seconds between checks of a silent process
_PRINTED = 1 << 14  # bytes of what a job printed that are returned
_FAULTS = (signal.SIGILL, signal.SIGBUS, signal.SIGFPE, signal.SIGSEGV)
_NUMBERS = struct.Struct("<qq")  # calls begun, calls ended
_HIGH = 100  # descriptors of this module begin here, so that those with signals' numbers are free
_DEEP, _GAP = 100 << 20, 128 << 20  # bytes of stack for a repeated job, and that exec leaves free below the stack
_THREAD_STACK = 64 << 20  # bytes of stack for its threads
_FRAME = 1 << 16  # bytes: size of the stack for signal handlers
_FPE_INTDIV = 1  # si_code of an integer division
_MESSAGES = (  # patterns of what glibc and libstdc++ print before they abort, and the codes
    (r"stack smashing detected", "stack_smashed"),
    (r"(?:free|malloc|realloc|calloc|munmap_chunk|_int_\w+)\(\): .*|double free or corruption.*|corrupted .*", "heap"),
    (r"Assertion .* failed.*", "assertion"),
    (r"terminate called .*", "uncaught"),
    (r"buffer overflow detected", "heap"),
)


class Job(NamedTuple):
    path: str
    format: str
    backend: str
    library: Optional[Path]  # the built library, if it is compiled
    function: str  # "module:function"; it is called with the loaded kernel and the arguments
    arguments: Tuple[Any, ...]
    what: str = ""  # the job's name, for the display of progress
    device: int = 0
    seconds: float = 60.0  # time limit of the whole job
    first_seconds: Optional[float] = None  # time limit of each of its first calls
    first_calls: int = 1


class Outcome(NamedTuple):
    result: Any = None  # what the function returned
    cause: Optional[Cause] = None  # why there is no result
    seconds: float = 0.0
    printed: str = ""  # the beginning of what the process printed


Tick = Callable[[float, str], None]


class Server:
    """A context in which jobs run. The server process starts with the first job, and ends with the context."""

    _process: Optional[subprocess.Popen] = None
    _connection: Connection

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *exception: Any) -> None:
        self._end()

    def run_each(self, jobs: Sequence[Job], tick: Tick = lambda share, what: None) -> List[Outcome]:
        """Run jobs as `outcomes` does; return their outcomes in the order of the jobs."""
        return list(self.outcomes(jobs, tick))

    def outcomes(self, jobs: Sequence[Job], tick: Tick = lambda share, what: None) -> Iterator[Outcome]:
        """Run jobs, each in its own process, and yield their outcomes in the order of the jobs.

        No further job is started after the generator is closed. FashionInferError if a kernel cannot be loaded or the
        job's function raises it.

        `tick` is called with the share of the jobs that have ended, 0 to 1, and the name of the next one.
        """
        if not jobs:
            return
        if self._process is None:
            self._start()
        try:
            self._connection.send(list(jobs))
            for number, job in enumerate(jobs):
                tick(number / len(jobs), job.what)
                sent = self._connection.recv()
                if isinstance(sent, FashionInferError):
                    raise sent
                if isinstance(sent, str):
                    raise RuntimeError(f"the judge failed:\n{sent}")
                yield sent
            jobs = ()
        except (EOFError, ConnectionError):
            raise CheckFailed(f"{jobs[0].path} ended the process that tries it") from None
        finally:
            if jobs:  # the server would still run the rest of them
                self._end()

    def _start(self) -> None:
        ours, its = socket.socketpair()
        path = ":".join(part for part in sys.path if part)
        # malloc fills blocks of its threads' caches with nothing (`here`), and prints to the terminal, not to stderr.
        tunables = [os.environ.get("GLIBC_TUNABLES", ""), "glibc.malloc.tcache_count=0"]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _SERVER, str(its.fileno()), path],
            stdin=subprocess.DEVNULL,
            stdout=2,
            pass_fds=(its.fileno(),),
            start_new_session=True,
            env={**os.environ, "LIBC_FATAL_STDERR_": "1", "GLIBC_TUNABLES": ":".join(filter(None, tunables))},
        )
        its.close()
        self._connection = Connection(ours.detach())

    def _end(self) -> None:
        """End the server and its children."""
        process, self._process = self._process, None
        if process is not None:
            self._connection.close()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def abort_reason(printed: str) -> Tuple[str, str]:
    """Return why a process aborted, as a code and as words that it printed; "crash" and "" if it printed none."""
    for pattern, code in _MESSAGES:
        words = re.search(pattern, printed)
        if words:
            return code, words[0].strip()
    return "crash", ""


# ---- in the server


def serve(descriptor: int) -> None:
    """Run the jobs that come over a socket, until its other end is closed."""
    parent = Connection(descriptor)
    with contextlib.suppress(EOFError):
        while True:
            _run_jobs(parent, parent.recv())


def _run_jobs(parent: Connection, jobs: Sequence[Job]) -> None:
    """Run each job in a forked process, and send the outcomes in the order of the jobs.

    Two jobs on the CPU run at once, because the kernels of most files have one thread.
    """
    _warm_up(jobs)
    alone = len(os.sched_getaffinity(0)) < 2 or any(job.backend != "cpu" for job in jobs)
    running: Dict[int, _JobProcess] = {}
    outcomes: Dict[int, Any] = {}
    started = sent = 0
    while sent < len(jobs):
        while started < len(jobs) and len(running) < (1 if alone else 2):
            running[started] = _JobProcess(jobs[started])
            started += 1
        ready, _, _ = select.select([parent, *(process.results for process in running.values())], [], [], _LOOK)
        if parent in ready:  # the parent's end is closed, so it no longer waits
            os.killpg(0, signal.SIGKILL)
        for number, process in list(running.items()):
            outcome = process.outcome(process.results in ready)
            if outcome is not None:
                outcomes[number] = outcome
                del running[number]
        while sent in outcomes:
            with contextlib.suppress(BrokenPipeError):  # nobody waits for more outcomes
                parent.send(outcomes.pop(sent))
            sent += 1


def _warm_up(jobs: Sequence[Job]) -> None:
    with contextlib.suppress(Exception):
        for name in sorted({job.function.partition(":")[0] for job in jobs}):
            importlib.import_module(name)
        if any(job.format == "python" for job in jobs):
            import torch  # noqa: F401


class _JobProcess:
    def __init__(self, job: Job, deep: bool = False):
        self._job, self._deep = job, deep
        self._notes = mmap.mmap(-1, mmap.PAGESIZE)
        self._printed, self._faults = os.memfd_create("printed"), os.memfd_create("faults")
        self._kills = _oom_kills()
        receiving, sending = os.pipe()
        self._began = self._looked = time.monotonic()
        self._call, self._in_call, self._in_all = 0, 0.0, 0.0  # the last call begun; seconds waited for it, and in all
        self._child = os.fork()
        if self._child == 0:
            _run_here(job, deep, self._notes, self._printed, self._faults, sending)
        os.close(sending)
        self.results = Connection(receiving, writable=False)

    def outcome(self, ready: bool) -> Any:
        """Return the job's outcome; None while it runs."""
        ended, status, usage = os.wait4(self._child, os.WNOHANG)
        if ready or (ended and self.results.poll()):  # it may have sent its result since the caller looked
            with contextlib.suppress(EOFError):
                (sent,) = self.results.recv()
                self._end()
                if isinstance(sent, (FashionInferError, str)):
                    return self._closed(sent)
                return self._closed(Outcome(sent, None, self._lasted, self._text()))
        if ended:
            return self._closed(self._of_status(status, usage))
        begun, completed = _NUMBERS.unpack_from(self._notes)
        self._wait(begun)
        first = self._job.first_seconds
        in_first_call = completed < begun <= self._job.first_calls
        if first is not None and in_first_call and self._in_call > first:
            self._end()
            return self._closed(self._because("hangs", seconds=first))
        if self._in_all > self._job.seconds:
            self._end()
            return self._closed(self._because("time_limit", seconds=self._job.seconds))
        return None

    def _wait(self, begun: int) -> None:
        """Add the time since the last look. A machine that stood still, or was busy, delays this look, too; that time
        does not count."""
        now = time.monotonic()
        passed, self._looked = min(now - self._looked, 2 * _LOOK), now
        self._in_call = passed + (self._in_call if begun == self._call else 0.0)
        self._call, self._in_all = begun, self._in_all + passed

    @property
    def _lasted(self) -> float:
        return time.monotonic() - self._began

    def _end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._child, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._child, 0)

    def _closed(self, outcome: Any) -> Any:
        self.results.close()
        os.close(self._printed)
        os.close(self._faults)
        return outcome

    def _text(self, start: int = 0) -> str:
        return os.pread(self._printed, _PRINTED, start).decode(errors="replace")

    def _because(self, code: str, **details: Any) -> Outcome:
        """Return the outcome of a process that ended without a result; the details say in which call."""
        begun, ended, noted = self._noted()
        call: Dict[str, Any] = {"during": "load"}
        if begun:
            noted.pop("ends", None)
            call = {"during": "call" if begun > ended else "after", "call": begun, **noted}
        return Outcome(None, Cause(code, {**call, **details}), self._lasted, self._text())

    def _of_status(self, status: int, usage: resource.struct_rusage) -> Outcome:
        if not os.WIFSIGNALED(status):
            return self._because("exit", status=os.WEXITSTATUS(status))
        number = os.WTERMSIG(status)
        name = signal_name(number)
        if number == signal.SIGKILL and _oom_kills() > self._kills:
            return self._because("memory", signal=name, bytes=usage.ru_maxrss << 10)
        if number == signal.SIGABRT:
            code, words = abort_reason(self._text(max(0, os.fstat(self._printed).st_size - _PRINTED)))
            return self._because(code, signal=name, words=words)
        if number in _FAULTS:
            return self._of_fault(number, name)
        return self._because("crash", signal=name)

    def _of_fault(self, number: int, name: str) -> Outcome:
        info = os.pread(self._faults, 24, 0)
        reason, address = struct.unpack("<8xi4xQ", info) if len(info) == 24 else (0, None)
        if number == signal.SIGFPE and reason in (0, _FPE_INTDIV):
            return self._because("divides_by_zero", signal=name)
        if number == signal.SIGILL:
            return self._because("illegal_instruction", signal=name)
        known = {} if address is None else {"null": address < mmap.PAGESIZE}
        if number == signal.SIGSEGV and address is not None:
            _, _, noted = self._noted()
            for tensor, end in zip("xky", noted.get("ends", ())):
                if end <= address < end + mmap.PAGESIZE:
                    return self._because("past_end", signal=name, tensor=tensor, bytes=address - end)
            if _below_stack(address):
                return self._because("stack", signal=name, limit=_stack_limit())
        elif number == signal.SIGSEGV and not self._deep and self._passes_with_more_stack():
            return self._because("stack", signal=name, limit=_stack_limit())
        return self._because("crash", signal=name, **known)

    def _passes_with_more_stack(self) -> bool:
        """Repeat the job with larger stacks; return whether the call in which this process died then ends."""
        begun, ended, _ = self._noted()
        if begun == ended:  # no call needed a stack: threads that outlive a call may end the process
            return False
        process = _JobProcess(self._job, deep=True)
        while True:
            outcome = process.outcome(bool(select.select([process.results], [], [], _LOOK)[0]))
            if outcome is not None:
                return isinstance(outcome, Outcome) and process._noted()[1] >= begun > 0

    def _noted(self) -> Tuple[int, int, Dict[str, Any]]:
        """Return the numbers of calls begun and ended, and what is noted of the last one."""
        begun, ended = _NUMBERS.unpack_from(self._notes)
        text = self._notes[_NUMBERS.size :].rstrip(b"\0").decode(errors="replace")
        try:
            return begun, ended, json.loads(text) if text else {}
        except ValueError:  # a kernel may write anywhere
            return begun, ended, {}


def _stack_limit() -> int:
    """Return the main thread's stack size limit in bytes; 0 for none."""
    limit, _ = resource.getrlimit(resource.RLIMIT_STACK)
    return 0 if limit == resource.RLIM_INFINITY else limit


def _below_stack(address: int) -> bool:
    """Whether an address is where the main thread's stack would be if its limit were larger.

    A forked process has its stack where this process has it.
    """
    limit = _stack_limit()
    ends = re.search(r"^[0-9a-f]+-([0-9a-f]+) .*\[stack\]$", Path("/proc/self/maps").read_text(), re.MULTILINE)
    top = int(ends[1], 16) if ends else 0
    return bool(limit) and top - max(limit, _GAP) <= address < top - limit + mmap.PAGESIZE


def _oom_kills() -> int:
    """Return how many processes the kernel has ended because memory ran out; 0 if unknown."""
    with contextlib.suppress(OSError):
        found = re.search(r"^oom_kill (\d+)$", Path("/proc/vmstat").read_text(), re.MULTILINE)
        return int(found[1]) if found else 0
    return 0


# ---- in a job's process


def _run_here(job: Job, deep: bool, notes: mmap.mmap, printed: int, faults: int, sending: int) -> None:
    """Run a job, send its result, and end this process, which was forked for the job."""
    sent: Any = None
    try:
        results = _prepared(notes, printed, faults, sending)
        if deep:
            _deepen()
        try:
            insist = None if job.format == "prebuilt" else job.format
            file = formats.recognise(job.path, insist, job.backend)
            kernel = loading.load(file, device=job.device, library=job.library)
            module, _, name = job.function.partition(":")
            sent = getattr(importlib.import_module(module), name)(kernel, *job.arguments)
        except FashionInferError as error:
            sent = error
    except BaseException:  # an error of this package: errors of the kernel have been turned into messages
        sent = traceback.format_exc()
    results.send((sent,))
    os._exit(0)


def _prepared(notes: mmap.mmap, printed: int, faults: int, sending: int) -> Connection:
    """Prepare this process for a crash, and return the connection for the result."""
    os.dup2(printed, 1)
    os.dup2(printed, 2)
    high = [fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _HIGH) for descriptor in (sending, faults)]
    if platform.machine() == "x86_64":
        with contextlib.suppress(OSError):
            _note_faults(high[1])

    def note(call: Optional[Dict[str, Any]]) -> None:
        begun, ended = _NUMBERS.unpack_from(notes)
        if call is None:
            _NUMBERS.pack_into(notes, 0, begun, ended + 1)
            if os.fstat(printed).st_size > _PRINTED << 6:
                os.ftruncate(printed, _PRINTED)
            return
        text = json.dumps(call).encode()[: len(notes) - _NUMBERS.size]
        notes[_NUMBERS.size :] = text.ljust(len(notes) - _NUMBERS.size, b"\0")
        _NUMBERS.pack_into(notes, 0, begun + 1, ended)

    here.announce = note
    return Connection(high[0], readable=False)


class _Sigaction(ctypes.Structure):
    _fields_ = [
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_ulong * 16),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    ]


class _Stack(ctypes.Structure):
    _fields_ = [("pointer", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t)]


_frame: List[mmap.mmap] = []  # the stack of signal handlers


def _note_faults(file: int) -> None:
    """Let a fault's siginfo be written to a file before the process dies of the fault.

    The handler is `write` itself, which a handler's arguments suit: the signal's number is a descriptor of the file,
    the siginfo the data, and the address of the context the size. The size is less than 2 GiB, as `write` demands,
    because the handler's stack lies below; the data ends at the protected page after that stack. SA_RESETHAND lets the
    second occurrence of the fault end the process. Faults in other threads, which have no such stack, are not noted.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    size = _FRAME + mmap.PAGESIZE
    map_32bit = 0x40
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | map_32bit)
    _frame.append(memory)
    begin = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    if libc.mprotect(ctypes.c_void_p(begin + _FRAME), ctypes.c_size_t(mmap.PAGESIZE), 0):
        return
    if libc.sigaltstack(ctypes.byref(_Stack(begin, 0, _FRAME)), None):
        return
    siginfo, on_stack, reset = 0x4, 0x08000000, -0x80000000
    action = _Sigaction(ctypes.cast(libc.write, ctypes.c_void_p).value, flags=siginfo | on_stack | reset)
    for number in _FAULTS:
        os.dup2(file, number, inheritable=False)
        libc.sigaction(int(number), ctypes.byref(action), None)


def _deepen() -> None:
    """Raise the limits of the stacks of this thread and of threads that begin later."""
    _, most = resource.getrlimit(resource.RLIMIT_STACK)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_STACK, (_DEEP, most))
    os.environ["OMP_STACKSIZE"] = f"{_THREAD_STACK >> 10}K"
    libc, attributes = ctypes.CDLL(None), ctypes.create_string_buffer(256)
    if not libc.pthread_attr_init(attributes):
        libc.pthread_attr_setstacksize(attributes, ctypes.c_size_t(_THREAD_STACK))
        libc.pthread_setattr_default_np(attributes)
