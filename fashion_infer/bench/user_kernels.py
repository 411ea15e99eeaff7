"""Makes contenders of `bench conv` from kernel files: checks and diagnoses the files, and times them by the log."""

import statistics
from typing import Callable, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ..errors import CheckFailed, FashionInferError, UsageError
from ..judging import reference, trials
from ..judging.diagnosis import Diagnosis, diagnose
from ..kernel_files import formats, plugin, requirements
from ..kernel_files.formats import KernelFile
from ..kernel_files.loading import LoadedKernel
from ..library import bindings, kernels, op_times
from .records import OURS, SKIPPED, WRONG, Measurement
from .timing import Contender

_BY_IMAGES = "wrong from image "  # beginning of a reason that names the first incorrect image


class LogClock:
    """A clock for runs that the library logs. It measures Op Time as the file's format defines it."""

    def __init__(self, slow: float):
        self.slow = slow  # a run that takes longer than this, in seconds, is slow
        self.layer_seconds: List[float] = []  # per run of a format with phases: the sum of prolog, forward and epilog

    def time(self, run, n: int) -> List[float]:
        """Call `run` n times and return the Op Time of each call, in seconds."""
        seconds = []
        for _ in range(n):
            op_times.drain()
            run()
            (record,) = op_times.drain()
            seconds.append(record.seconds)
            if record.layer_seconds:
                self.layer_seconds.append(record.layer_seconds)
        return seconds

    @property
    def layer_ms(self) -> Optional[float]:
        """Median of the Layer Times of all runs so far, in milliseconds; None for a format without phases."""
        return 1e3 * statistics.median(self.layer_seconds) if self.layer_seconds else None


class FileContender(NamedTuple):
    """A kernel file that runs on one convolution's tensors."""

    contender: Contender  # its clock is a LogClock
    complete: Callable[[], bool]  # returns whether the output of the last run has no NaN


def recognise_files(files: Sequence[str], names: Optional[str], backend: Optional[str]) -> Tuple[KernelFile, ...]:
    """Recognise kernel files, which must all run on the same backend; UsageError if their backends differ."""
    forced = formats.insisted(files, names)
    found = [formats.recognise(file, format, backend).placed() for file, format in zip(files, forced)]
    if len({file.backend for file in found}) > 1:
        said = ", ".join(f"{file.path} is for the {file.backend.upper()}" for file in found)
        raise UsageError(f"the files of one benchmark must run on the same backend: {said}")
    return tuple(found)


def row_of(kernel: LoadedKernel) -> Measurement:
    return Measurement(kernel.name, OURS, summary=f"{kernel.path} ({kernel.format})", file=str(kernel.path))


def contender_if_correct(
    backend: str,
    work,
    row: Measurement,
    kernel: LoadedKernel,
    picked: np.ndarray,
    want: np.ndarray,
    x: np.ndarray,
    weight: np.ndarray,
) -> Optional[Contender]:
    """Return a contender for a kernel file that supports the layer and is correct; else None, and the row says why.

    `want` is the reference output of the images `picked`. CheckFailed if the file leaves the device in an error state.
    """
    try:
        kernels.chosen_kernel(x.shape, weight.shape, backend, kernel.name)
    except UsageError as error:
        row.status, row.reason = SKIPPED, str(error)
        return None
    _, C, H, _ = x.shape
    (tried,) = trials.try_layers(kernel, [(kernel.name, (C, H, weight.shape[0], weight.shape[2]))])
    if not tried.right:
        row.findings = tried.findings
        row.status, row.reason, row.precision = WRONG, tried.line(), "wrong"
        return None
    file = work.kernel_file(kernel)
    op_times.drain()
    bindings.load().fops_examine(1)
    try:
        y = file.contender.run()
        record = op_times.drain()[-1]
    except FashionInferError as error:
        if not requirements.device_usable(backend):
            raise CheckFailed(f"{kernel.name} left the device in error: {error}") from None
        row.status, row.reason = WRONG, str(error)
        return None
    finally:
        bindings.load().fops_examine(0)
    row.findings = plugin.said(record.findings)
    got = file.contender.sample(y, picked)
    found = diagnose(got, x[picked], weight, want)
    row.precision = found.precision
    row.error = reference.error(got, want)
    if not found.right:
        row.status, row.reason = WRONG, where_wrong(found, file.contender, y, picked, x, weight)
    elif not file.complete():
        row.status, row.reason = WRONG, "some of the output was never written, or is NaN"
    return None if row.status == WRONG else file.contender


def where_wrong(
    found: Diagnosis, contender: Contender, y, picked: np.ndarray, x: np.ndarray, weight: np.ndarray
) -> str:
    """Return in one line how many of the output's values differ, the first position, and the likely reason."""
    line = _numbered_in_batch(found, contender, y, picked, x, weight).line()
    return f"among the {len(picked)} images compared, {line}"


def _numbered_in_batch(found: Diagnosis, contender: Contender, y, picked: np.ndarray, x, weight) -> Diagnosis:
    """Convert a diagnosis with indices of the picked images to one with image numbers of the whole batch."""
    assert found.first is not None
    first = int(picked[found.first[0]])
    found = found._replace(first=(first, *found.first[1:]))
    if not found.reason.startswith(_BY_IMAGES):
        return found
    right, wrong = int(picked[np.searchsorted(picked, first) - 1]), first
    while wrong - right > 1:
        middle = (right + wrong) // 2
        one = np.array([middle])
        if diagnose(contender.sample(y, one), x[one], weight, reference.convolve(x[one], weight)).right:
            right = middle
        else:
            wrong = middle
    why = found.reason.partition(" on: ")[2]
    return found._replace(reason=f"{_BY_IMAGES}{wrong} on: {why}")
