"""Makes contenders of `bench conv` from kernel files: checks and diagnoses the files, and times them by the log."""

import statistics
from typing import Any, Dict, List, Optional, Sequence, Tuple

from .. import devices
from ..errors import CheckFailed, FashionInferError, UsageError
from ..graph.layers import ConvolutionShape
from ..judging import judge
from ..judging.judge import Layer
from ..judging.verdict import ShapeVerdict
from ..kernel_files import formats, loading, paths
from ..kernel_files.formats import KernelFile
from ..kernel_files.loading import LoadedKernel
from ..library import kernels, op_times
from . import checking
from .records import OURS, SKIPPED, WRONG, Measurement
from .request import BenchRequest
from .timing import Contender


class LogClock:
    """A clock for runs that the library logs. It measures Op Time as the file's format defines it."""

    def __init__(self, slow: float):
        self.slow = slow  # a run that takes longer than this, in seconds, is slow
        self.layer_seconds: List[float] = []  # per run of a format with phases: the sum of prolog, forward and epilog

    def time(self, run, n: int) -> List[float]:
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


def recognise_files(files: Sequence[str], names: Optional[str], backend: Optional[str]) -> Tuple[KernelFile, ...]:
    """Recognise kernel files, which must all run on the same backend; UsageError if their backends differ."""
    forced = formats.insisted(files, names)
    found = [formats.recognise(file, format, backend).placed() for file, format in zip(files, forced)]
    if len({file.backend for file in found}) > 1:
        said = ", ".join(f"{file.path} is for the {file.backend.upper()}" for file in found)
        raise UsageError(f"the files of one benchmark must run on the same backend: {said}")
    return tuple(found)


def requested(
    names: Sequence[str], kernel_format: Optional[str], backend: str, device: int, **options: Any
) -> BenchRequest:
    """Return a request for kernels and kernel files; the files determine the backend if there are any."""
    files = recognise_files(paths.among(names), kernel_format, backend)
    where = files[0].backend if files else devices.choose(backend, device).backend
    kernels = ",".join(names) or "all"
    return BenchRequest(backend=where, device=device, kernels=kernels, files=files, formats=kernel_format, **options)


def row_of(kernel: LoadedKernel) -> Measurement:
    return Measurement(kernel.name, OURS, summary=f"{kernel.path} ({kernel.format})", file=str(kernel.path))


def judged(kernel: LoadedKernel, shapes: Sequence[ConvolutionShape]) -> Dict[ConvolutionShape, ShapeVerdict]:
    """Judge a kernel file on all layers that it runs in one process; layers of one image, the supported ones."""
    layers = [Layer(shape.title, shape) for shape in dict.fromkeys(shape._replace(B=1) for shape in shapes)]
    return {one.shape._replace(B=1): one for one in judge.check_layers(kernel, layers).shapes}


def contender_if_correct(
    backend: str, work, row: Measurement, kernel: LoadedKernel, alone: Optional[ShapeVerdict], x, weight
) -> Optional[Contender]:
    """Return a contender for a kernel file that supports the layer and is correct; else None, and the row says why."""
    try:
        kernels.chosen_kernel(x.shape, weight.shape, backend, kernel.name)
    except UsageError as error:
        row.status, row.reason = SKIPPED, str(error)
        return None
    assert alone is not None
    row.findings, row.precision = alone.findings, alone.precision
    if not alone.right:
        row.status, row.reason = WRONG, alone.line()
        return None
    contender = work.kernel_file(kernel)
    try:
        y = contender.run()
    except FashionInferError as error:
        if not loading.device_usable(backend):
            raise CheckFailed(f"{kernel.name} left the device in error: {error}") from None
        row.status, row.reason = WRONG, str(error)
        return None
    if checking.judged(row, contender, y, x, weight, alone.precision):
        return contender
    # The reason shows better in a process of its own, with as many images.
    layer = Layer(kernel.name, alone.shape._replace(B=1))
    (again,) = judge.check_layers(kernel, [layer], images=len(x)).shapes
    row.reason, row.precision = (row.reason if again.right else again.line()), "incorrect"
    return None
