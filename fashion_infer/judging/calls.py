"""Judged calls of one shape: on the same inputs and on fresh ones, with several numbers of threads.

A kernel is incorrect if any call's output differs from the float64 reference, if it writes outside the output, or if it
changes its inputs. Outputs on the same inputs are compared bit for bit first, which reveals races. If they differ, each
is compared with the reference, because a sum that atomics add in any order is correct.
"""

import contextlib
import ctypes
import math
import os
import re
import signal
import time
from typing import Any, ContextManager, Dict, Iterator, List, NamedTuple, Optional, Tuple

import numpy as np

from ..errors import DeviceError
from ..kernel_files import neighbours, plugin
from ..kernel_files.formats import KernelFile
from ..kernel_files.loading import LoadedKernel
from ..library import kernels
from . import reasons, reference
from .buffers import HostBuffers, JudgedCall, Size, allocate, same_bits
from .diagnosis import Diagnosis, computed_of_nan, diagnose

Shape = Tuple[int, int, int, int]  # input channels, input size, filters, kernel size

SAME_INPUTS = 5  # minimum number of calls on the same inputs
_MOST_RACE_CALLS = 100  # limit for further calls on the same inputs, for a kernel with threads
_THREADS = re.compile(r"\bomp\b|\bj?thread\b|\bpthread_create\b|std::async|\btbb\b|execution::par")
_INTERVAL = 1e-4  # seconds between interrupts of a thread
_SOME = 8  # number of images at each end, and in between, that are compared first in a large batch
_MOST_IMAGES, _PRODUCTS = 128, 10**8  # limits for the largest call: images, and products of a pixel and a weight
_EXAMINED = 2  # calls that the adapter examines: the first one, and the first on fresh inputs


class Tried(NamedTuple):
    """Results of the calls of one shape."""

    what: str  # the edition and its layer's number, or "another size"
    shape: Size
    code: str  # reason why it is incorrect, a code in `reasons`; "" if correct
    reason: str  # the reason as a sentence
    diagnosis: Optional[Diagnosis] = None  # of the call that shows the reason; None if no call completed
    op_seconds: float = 0.0  # in the first call
    layer_seconds: float = 0.0  # 0 for a format without phases
    findings: Tuple[str, ...] = ()
    calls: int = 0  # completed calls

    @property
    def channels(self) -> int:
        """Number of input channels."""
        return self.shape[1]

    @property
    def right(self) -> bool:
        """Whether every call was correct."""
        return not self.code

    def line(self) -> str:
        """Summarise the results in one line."""
        if self.diagnosis is None or (not self.right and self.diagnosis.right):
            return self.reason
        return self.diagnosis.line(self.reason)

    def as_dict(self) -> Dict[str, Any]:
        """Convert for JSON, which has neither NaN nor infinity."""
        facts = self._asdict()
        if self.diagnosis is not None:
            facts["diagnosis"] = {
                name: None if isinstance(value, float) and not math.isfinite(value) else value
                for name, value in self.diagnosis._asdict().items()
            }
        return facts


def try_shape(
    kernel: LoadedKernel,
    what: str,
    shape: Shape,
    images: int,
    seed: int = 0,
    device: int = 0,
    once: bool = False,
    quiet: bool = False,
    race_seconds: float = 0.0,
) -> Tried:
    """Call a kernel on random pixels and weights, in this process.

    Parameters
    ----------
    kernel
        The kernel.
    what, shape
        Name of the shape, and its sizes.
    images
        Number of images per call.
    seed
        Seed of the inputs.
    device
        Index of the GPU.
    once
        Whether to make only one call: for the batch size of a run, after the shape was tried with fewer images.
    quiet
        Whether to close stderr after the first call, in case the kernel prints. Use it only in a separate process.
    race_seconds
        Time for further calls of a kernel with threads, in seconds. These calls look for races.
    """
    return _Trial(kernel, what, shape, images, seed, device, quiet, race_seconds).result(once)


def most_images(size: Size, backend: str) -> int:
    """Return the odd number of images of a trial's largest call, in which an index may overflow or memory may end.

    On the CPU, it is as large as possible in a fraction of a second.
    """
    images, channels, side, _, filters, taps = size
    products = channels * filters * (taps * (side - taps + 1)) ** 2
    affordable = min(_MOST_IMAGES, _PRODUCTS // products) if backend == "cpu" else 0
    return max(2 * images, affordable) | 1


class _Trial:
    def __init__(
        self,
        kernel: LoadedKernel,
        what: str,
        shape: Shape,
        images: int,
        seed: int,
        device: int,
        quiet: bool,
        race_seconds: float,
    ):
        self.kernel, self.what, self.device = kernel, what, device
        channels, side, filters, taps = shape
        self._numbers = channels, side, filters, taps
        self._rng = np.random.default_rng(seed)
        self.size: Size = (images, channels, side, side, filters, taps)
        self._first: Optional[JudgedCall] = None
        self._findings: Dict[str, None] = {}
        self._calls, self._quiet, self._race_seconds = 0, quiet, race_seconds
        self._runs_threads = runs_threads(kernel.file)

    def result(self, once: bool) -> Tried:
        images, kernel = self.size[0], self.kernel
        more = images
        if not (once or images > 32 or kernel.batch_multiple > 1):
            more = most_images(self.size, kernel.backend)
        self._buffers: HostBuffers = allocate(kernel, (more, *self.size[1:]), self.device)
        try:
            return self._judged(once, more)
        except DeviceError as error:  # the kernel's message, or the device's
            code = "device_error" if "CUDA error" in str(error) else "failed"
            return self._tried(code, reasons.sentence(code, error), None)

    def _judged(self, once: bool, more: int) -> Tried:
        same = self._inputs(self.size[0])
        first = self._call(*same).kept()
        found = _diagnosed(first.output, *same)
        wrong = self._wrong(first, found)
        if once:
            return wrong or self._tried("", "", found)
        if wrong is not None:
            return self._explained(wrong, first, same)
        # Calls on fresh inputs between calls on the same inputs, each with another number of threads.
        same_calls, earlier = 1, [first.output[:_SOME]]
        for count in (2, 1, None):
            for images in (self.size[0], *([more] if count is None else [])):
                fresh = self._inputs(images)
                with threads(count):
                    call = self._call(*fresh)
                found_fresh = _diagnosed(call.output, *fresh)
                wrong = self._wrong(call, found_fresh)
                if wrong is not None:
                    return self._of_a_later_call(wrong, call, fresh, earlier, images != self.size[0])
                earlier.append(call.output[:_SOME].copy())
            with threads(count):
                call = self._call(*same)
            same_calls += 1
            wrong = self._compared(call, same, first)
            if wrong is not None:
                return wrong
        parallel, start = self._parallel(), time.monotonic()
        for number in range(_MOST_RACE_CALLS if parallel else SAME_INPUTS - same_calls):
            if number >= SAME_INPUTS and time.monotonic() - start > self._race_seconds:
                break
            with threads((2, None, 8)[number % 3] if parallel else None), self._interrupted():
                call = self._call(*same)
            wrong = self._compared(call, same, first)
            if wrong is not None:
                return wrong
        return self._tried("", "", found)

    def _inputs(self, images: int) -> Tuple[np.ndarray, np.ndarray]:
        channels, side, filters, taps = self._numbers
        x = self._rng.integers(0, 256, (images, channels, side, side), np.uint8).astype(np.float32)
        return x, self._rng.standard_normal((filters, channels, taps, taps)).astype(np.float32)

    def _call(self, x: np.ndarray, weight: np.ndarray, examine: Optional[bool] = None) -> JudgedCall:
        made = self._buffers.call(x, weight, self._calls < _EXAMINED if examine is None else examine)
        self._calls += 1
        if self._quiet and self._calls == 1:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        self._first = self._first or made
        self._findings.update(dict.fromkeys(plugin.said(made.record.findings)))
        return made

    def _wrong(self, call: JudgedCall, found: Diagnosis) -> Optional[Tried]:
        """Return the verdict on a call whose output is incorrect; None if it is correct."""
        if call.stray:
            return self._tried(call.stray, reasons.sentence(call.stray), found)
        if call.inputs_changed:
            return self._tried("inputs_changed", reasons.sentence("inputs_changed"), found)
        if found.right:
            return None
        return self._tried(found.code, found.reason or reasons.sentence(found.code), found)

    def _compared(self, call: JudgedCall, inputs, first: JudgedCall) -> Optional[Tried]:
        """Return the verdict on a further call on the same inputs, after a correct first call."""
        if not call.stray and not call.inputs_changed and same_bits(call.output, first.output):
            return None
        found = _diagnosed(call.output, *inputs)
        wrong = self._wrong(call, found)
        if wrong is None or call.stray or call.inputs_changed:
            return wrong
        code = "race" if self._parallel() else "unstable"
        return self._tried(code, reasons.sentence(code), found)

    def _of_a_later_call(self, wrong: Tried, call: JudgedCall, inputs, earlier: List[np.ndarray], more: bool) -> Tried:
        """Return the verdict on an incorrect call on fresh inputs, after correct calls on other inputs.

        `earlier` holds the outputs of the correct calls for the first images.
        """
        if call.stray or call.inputs_changed:
            return wrong
        code = "later_call"
        details: Optional[Tuple[int, ...]] = ()  # None keeps the existing sentence
        output = call.output[:_SOME]
        if any(same_bits(output, one) for one in earlier):
            code = "cached"
        elif _like(output, reference.convolve(inputs[0][:_SOME], inputs[1]), earlier[-1]):
            code = "carries_over"
        elif wrong.code in ("imprecise", "whole_numbers") or (
            more and wrong.code in ("images_from", "not_all_written")
        ):
            code, details = wrong.code, None
        elif self._repeats_differ(call.kept(), inputs):
            code = "race" if self._parallel() else "unstable"
        elif more:
            code, details = "fixed_batch", (self.size[0], len(inputs[0]))
        text = wrong.reason if details is None else reasons.sentence(code, *details)
        return wrong._replace(code=code, reason=text)

    def _explained(self, wrong: Tried, first: JudgedCall, inputs) -> Tried:
        """Return the verdict on an incorrect first call, with a reason refined by further calls on the same inputs."""
        if first.stray or wrong.code in ("inputs_changed", "all_zero"):
            return wrong
        if wrong.code in ("not_written", "reads_outside") and self._accumulates(first, inputs):
            return wrong._replace(code="accumulates", reason=reasons.sentence("accumulates"))
        likely = self._parallel() or wrong.code in (reasons.INCORRECT, "not_all_written", "sum_not_reset")
        if likely and self._repeats_differ(first, inputs):
            code = wrong.code if wrong.code == "sum_not_reset" else "race" if self._parallel() else "unstable"
            return wrong._replace(code=code, reason=reasons.sentence(code))
        return wrong

    def _repeats_differ(self, call: JudgedCall, inputs) -> bool:
        """Whether repeated calls on the same inputs give other bits.

        They are examined if `call` was, because only then does memory that a file allocates on a GPU hold NaN first.
        """
        x, weight = inputs
        for number in range(2 * SAME_INPUTS):
            with threads((None, 1, 2)[number % 3]), self._interrupted():
                if not same_bits(self._call(x, weight, call.examined).output, call.output):
                    return True
        return False

    def _accumulates(self, first: JudgedCall, inputs) -> bool:
        """Whether a kernel whose outputs are all NaN adds to its output, which was NaN before the call."""
        if not np.isnan(first.output).all():
            return False
        if self.kernel.backend == "cpu":
            output = plugin.run_over_zeros(self.kernel.name, *inputs)
            return output is not None and diagnose(output, *inputs).right
        # No output still has the NaN from before the call, so every output was added to it. A file that reads outside
        # the tensors computes NaN for some outputs only.
        return bool(computed_of_nan(first.output).all())

    def _parallel(self) -> bool:
        """Whether the kernel runs threads: always on a GPU; on the CPU if it loaded OpenMP or starts threads."""
        return self.kernel.backend == "gpu" or openmp() is not None or self._runs_threads

    def _interrupted(self) -> ContextManager[None]:
        alone = self._quiet and self.kernel.backend == "cpu" and self._parallel()
        return interrupted() if alone else contextlib.nullcontext()

    def _tried(self, code: str, reason: str, found: Optional[Diagnosis]) -> Tried:
        record = self._first.record if self._first is not None else None
        return Tried(
            self.what,
            self.size,
            code,
            reason,
            found,
            record.seconds if record else 0.0,
            record.layer_seconds if record else 0.0,
            tuple(self._findings),
            self._calls,
        )


def _like(output: np.ndarray, wanted: np.ndarray, before: np.ndarray) -> bool:
    """Whether an output is the correct output plus an earlier output."""
    if before.shape != output.shape or not np.isfinite(output).all():
        return False
    both = wanted + before
    return bool(np.abs(output - both).max() <= 1e-4 * np.abs(both).max())


def _diagnosed(output: np.ndarray, x: np.ndarray, weight: np.ndarray) -> Diagnosis:
    """Diagnose an output.

    In a large batch, only some images are compared, unless one of them is incorrect. This saves seconds.
    """
    if len(x) > 4 * _SOME:
        picked = np.unique(np.r_[:_SOME, np.linspace(0, len(x) - 1, _SOME).astype(int), len(x) - _SOME : len(x)])
        found = diagnose(output[picked], x[picked], weight)
        if found.right and not np.isnan(output.max()):
            return found
        return diagnose(output, x, weight, kernels.convolve(x, weight, "shifted", "cpu"))
    return diagnose(output, x, weight)


def runs_threads(file: KernelFile) -> bool:
    """Whether the source of a kernel file or of its neighbours names something that starts threads."""
    if file.format.adapter is None:
        return False
    texts = (path.read_text(errors="replace") for path in [file.path, *neighbours.of(file.path).all])
    return any(_THREADS.search(text) for text in texts)


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
    signal.setitimer(signal.ITIMER_REAL, _INTERVAL, _INTERVAL)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        libc.signal(signal.SIGALRM, before)
