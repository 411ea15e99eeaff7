"""A caller in this process: the kernel's plug-in on tensors between guard zones, in host memory or on a GPU."""

import contextlib
import ctypes
import os
import re
import signal
import threading
import time
from pathlib import Path
from typing import Any, Callable, ContextManager, Dict, Iterator, Optional, Tuple

import numpy as np

from ...errors import DeviceError
from ...graph.layers import ConvolutionShape
from ...kernel_files import neighbours, plugin
from ...kernel_files.formats import KernelFile
from ...kernel_files.loading import LoadedKernel
from ...library import bindings, kernels, op_times
from ..calls import USUAL, Called, Caller, Conditions, Failed
from ..inputs import Inputs
from ..tensors import NEVER_NUMBER, GuardedDeviceTensors, GuardedTensors, PagedTensors, same_bits

_COPIED = 1 << 26  # bytes: size limit of an output that is copied when the kernel returns
_LATE = 5e-3  # seconds in which a thread that has not been joined writes some of the missing outputs
_THREADS = re.compile(
    r"(?m)^(?![ \t]*#[ \t]*include).*(\bomp\b|\bj?thread\b|\bpthread_create\b|std::async|\btbb\b|execution::par)"
)
_INTERVAL = 1e-4  # seconds between interrupts of a thread
_INTERRUPTED = 0.1  # seconds after which a call goes on without interrupts, which can leave it hardly any time
# Bytes that glibc's malloc fills new memory with, by the conditions' `own`; freed memory has the other bits. The byte
# 0xFF, of a NaN, is not possible: 0x7F gives 3.4e38, which no sum hides, and 0x40 gives 3.0.
_OWN_BYTES = {"nan": 0x7F, "number": 0x40}
_M_PERTURB = -6

# Function that is told of each call before it begins: the numbers of images and threads, and the addresses of protected
# pages; and None after the call.
Announce = Callable[[Optional[Dict[str, Any]]], None]
announce: Announce = lambda call: None  # noqa: E731


def caller_for(kernel: LoadedKernel, largest: ConvolutionShape, device: int = 0, alone: bool = False) -> Caller:
    """Return a caller of a kernel for calls of up to the sizes of a shape.

    `alone` says that this process runs nothing else, so that its threads may be interrupted by signals.
    """
    on_device = kernel.backend == "gpu" and not kernel.host_memory
    return (DeviceCaller if on_device else HostCaller)(kernel, largest, device, alone)


class HostCaller(Caller):
    """Calls a kernel on host tensors. A GPU file with host pointers copies them itself."""

    def __init__(self, kernel: LoadedKernel, largest: ConvolutionShape, device: int = 0, alone: bool = False):
        self._kernel, self._largest, self._device, self._alone = kernel, largest, device, alone
        self.backend = kernel.backend
        self.zeroed = bool(plugin._kept[kernel.name].description.zero_output)
        self._starts_threads = runs_threads(kernel.file)
        self._tensors: Dict[str, GuardedTensors] = {}
        self._at = "first"

    @property
    def parallel(self) -> bool:  # type: ignore[override]
        """Whether the kernel may run threads: on the CPU if it loaded OpenMP or names something that starts threads."""
        return self.backend == "gpu" or openmp() is not None or self._starts_threads

    @property
    def can(self) -> Tuple[str, ...]:  # type: ignore[override]
        found = ["moved", "guarded", "examine", "output", "guard"]
        if self.backend == "cpu":
            found += ["threads"] if openmp() is not None else []
            found += ["interrupted"] if self._alone and self.parallel else []
        found += ["own"] if self.backend == "gpu" or _perturb(0) else []
        return tuple(found)

    def call(self, inputs: Inputs, conditions: Conditions = USUAL) -> Called:
        tensors = self._tensors_for(conditions)
        number = conditions.output == "number" and not self.zeroed
        tensors.hold(
            inputs, np.float32(0) if self.zeroed else NEVER_NUMBER if number else np.float32(np.nan), conditions.guard
        )
        op_times.drain()
        count = (conditions.threads or len(os.sched_getaffinity(0))) if self._starts_threads else 1
        announce({"images": inputs.shape.B, "threads": count, "guarded": conditions.guarded, "ends": tensors.ends()})
        try:
            with threads(conditions.threads), self._interrupted(conditions), self._own(conditions):
                bindings.load().fops_examine(conditions.asked)
                self._run(tensors, inputs.shape)
        except DeviceError as error:  # the kernel's message, or the device's
            raise Failed("device_error" if "CUDA error" in str(error) else "failed", text=str(error)) from None
        finally:
            bindings.load().fops_examine(0)
            announce(None)
        # At once, because threads that a kernel has not joined may still write.
        at_return = tensors.y.copy() if tensors.y.nbytes <= _COPIED else tensors.y
        changed, stray = tensors.changed(inputs), tensors.stray()
        if not stray and (np.isnan(at_return.max()) or (number and (at_return == NEVER_NUMBER).any())):
            time.sleep(_LATE)
        if not stray and not same_bits(at_return, tensors.y):
            stray = "returns_early"
        record = op_times.drain()[-1]
        return Called(at_return, stray, changed, record.findings, record.seconds, record.layer_seconds)

    def _tensors_for(self, conditions: Conditions) -> GuardedTensors:
        """Return the tensors for a call; those at other addresses have another name."""
        if conditions.guarded:
            name = "guarded"
        else:
            if conditions.moved and self._at in self._tensors:
                self._tensors[self._at].spoil()
                self._at = "second" if self._at == "first" else "first"
            name = self._at
        if name not in self._tensors:
            self._tensors[name] = self._allocated(name == "guarded")
        return self._tensors[name]

    def _allocated(self, guarded: bool) -> GuardedTensors:
        return (PagedTensors if guarded else GuardedTensors)(self._largest)

    def _run(self, tensors: GuardedTensors, shape: ConvolutionShape) -> None:
        kernels.prepare(tensors.x, tensors.k, self._kernel.name, self.backend, self._device, node=0, out=tensors.y)()

    def _interrupted(self, conditions: Conditions) -> ContextManager[None]:
        wanted = conditions.interrupted and self._alone and self.backend == "cpu" and self.parallel
        return interrupted() if wanted else contextlib.nullcontext()

    @contextlib.contextmanager
    def _own(self, conditions: Conditions) -> Iterator[None]:
        """Return a context in which malloc fills new memory, if the call is examined.

        glibc does not fill memory of calloc, what a kernel maps itself, and blocks of up to 1 KiB from a thread's
        cache, unless the tunable `glibc.malloc.tcache_count` is 0.
        """
        wanted = self.backend == "cpu" and (conditions.examine or conditions.own != "any")
        if wanted:
            _perturb(_OWN_BYTES.get(conditions.own, _OWN_BYTES["nan"]) ^ 0xFF)
        try:
            yield
        finally:
            if wanted:
                _perturb(0)


class DeviceCaller(HostCaller):  # pragma: no cover (needs a CUDA device; tests/gpu runs it)
    """Calls a kernel on tensors in a GPU's memory."""

    def _allocated(self, guarded: bool) -> GuardedTensors:
        return GuardedDeviceTensors(self._largest, self._device, exact=guarded)

    def _run(self, tensors: GuardedTensors, shape: ConvolutionShape) -> None:
        assert isinstance(tensors, GuardedDeviceTensors)
        kernels.launch_timed(self._kernel.name, kernels.describe(shape.data, shape.weights), *tensors.upload(), 0)
        tensors.download()


def runs_threads(file: KernelFile, within: Optional[Path] = None) -> bool:
    """Whether the source of a kernel file or of its neighbours, in a folder, names something that starts threads."""
    return file.format.adapter is not None and bool(_THREADS.search(neighbours.whole_text(file.path, within)))


def openmp() -> Optional[ctypes.CDLL]:
    """Return GCC's OpenMP runtime, if this process has loaded it."""
    try:
        return ctypes.CDLL("libgomp.so.1", mode=os.RTLD_NOLOAD)
    except OSError:
        return None


@contextlib.contextmanager
def threads(count: Optional[int]) -> Iterator[None]:
    """Set the number of threads of OpenMP parallel regions in this thread; None for all processors."""
    runtime = openmp()
    if runtime is not None:
        runtime.omp_set_num_threads(count or len(os.sched_getaffinity(0)))
    yield


@contextlib.contextmanager
def interrupted() -> Iterator[None]:
    """Interrupt a thread ten thousand times per second in the middle of its work, while other threads go on.

    Threads that add to the same memory then lose sums, even if they rarely run at the same time. The signal handler is
    usleep itself, which sleeps for as many microseconds as the signal's number.
    """
    libc = ctypes.CDLL(None)
    libc.signal.argtypes, libc.signal.restype = [ctypes.c_int, ctypes.c_void_p], ctypes.c_void_p
    before = libc.signal(signal.SIGALRM, ctypes.cast(libc.usleep, ctypes.c_void_p))
    end = threading.Timer(_INTERRUPTED, signal.setitimer, (signal.ITIMER_REAL, 0.0))
    end.start()
    signal.setitimer(signal.ITIMER_REAL, _INTERVAL, _INTERVAL)
    try:
        yield
    finally:
        end.cancel()
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        libc.signal(signal.SIGALRM, before)


def _perturb(byte: int) -> bool:
    """Let malloc fill new memory with the complement of a byte, and freed memory with the byte; 0 for no longer."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and mallopt(_M_PERTURB, byte) == 1
