"""Checks a library kernel on a convolution before it is timed: makes data, runs the kernel once, compares outputs."""

from typing import Any, Optional

import numpy as np

from ..errors import DeviceError, UsageError
from ..judging import judge
from ..library import kernels as library
from .records import SKIPPED, WRONG, ConvolutionShape, Measurement
from .timing import Contender

_CLASSES = {"float32": "float32", "tf32": "tf32 or half", "fp16": "tf32 or half"}  # of a precision, the judge's class


def inputs(shape: ConvolutionShape, first: bool):
    """Make float32 input and weights, the same on every machine. If `first`, the input is pixels, else from -1 to 1."""
    rng = np.random.default_rng(shape.C * 1000 + shape.H)
    size = shape[:4]
    if first:
        x = rng.integers(0, 256, size, dtype=np.uint8).astype(np.float32)
    else:
        x = rng.random(size, dtype=np.float32)
        x *= 2
        x -= 1
    return x, rng.standard_normal((shape.M, shape.C, shape.K, shape.K)).astype(np.float32)


def contender_if_correct(backend, work, row, x, weight) -> Optional[Contender]:
    """Return a contender for a library kernel that supports the layer and is correct; else None, and `row` says why."""
    try:
        library.chosen_kernel(x.shape, weight.shape, backend, row.name)
    except UsageError as error:
        row.status, row.reason = SKIPPED, str(error)
        return None
    contender = work.kernel(row.name)
    work.poison()
    try:
        output, complete = contender.run(), work.complete()
    except (DeviceError, UsageError) as error:
        row.status, row.reason = WRONG, str(error)
        return None
    if not complete:
        row.status, row.reason = WRONG, "some of the output was never written, or is NaN"
    return contender if judged(row, contender, output, x, weight) else None


def judged(row: Measurement, contender: Contender, output: Any, x, weight, allowed: str = "") -> bool:
    """Compare all outputs of a run with the exact ones, and record the error in `row`; return whether they are correct.

    `allowed` is the least precise class that is correct; by default, that of the row's precision.
    """
    y = contender.sample(output, np.arange(len(x)))
    found = judge.outputs(row.name, y, x, weight, allowed or _CLASSES[row.precision])
    assert found.comparison is not None
    row.error = found.comparison.largest / (found.comparison.scale or 1.0)
    if not found.right and row.status != WRONG:
        row.status, row.reason = WRONG, found.line()
    return row.status != WRONG
