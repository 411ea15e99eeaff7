"""Checks a library kernel on a convolution before it is timed: makes data, runs the kernel once, compares outputs."""

from typing import Any, NamedTuple, Optional

import numpy as np

from ..errors import DeviceError, UsageError
from ..judging import reference
from ..judging.diagnosis import diagnose
from ..library import kernels as library
from . import user_kernels
from .records import SKIPPED, WRONG, ConvolutionShape, Measurement
from .timing import Contender

# Largest allowed error, relative to the output's largest magnitude. fp16 and TF32 keep 11 bits of each operand.
_TOLERANCE = {"float32": 5e-6, "tf32": 2e-3, "fp16": 2e-3}
_IMAGES = 16  # number of images to check at the beginning of a batch, at its end, and evenly spread over it


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


def images_to_check(batch):
    """Return the indices of the images of a batch to check: the first ones, the last ones, and some in between."""
    ends = np.r_[0 : min(_IMAGES, batch), max(0, batch - _IMAGES) : batch]
    return np.unique(np.r_[ends, np.linspace(0, batch - 1, _IMAGES).astype(int)])


class FirstRun(NamedTuple):
    """Result of a contender's first run, if the run raised no error."""

    output: Any  # the argument for `Contender.sample`
    complete: bool  # whether all of the output was written, without NaN


def first_run(work, contender: Contender, row: Measurement) -> Optional[FirstRun]:
    """Fill the output with NaN and run a contender once; None, and `row` says why, if that fails or NaN remains."""
    work.poison()
    try:
        ran = FirstRun(contender.run(), work.complete())
    except (DeviceError, UsageError) as error:
        row.status, row.reason = WRONG, str(error)
        return None
    if not ran.complete:
        row.status, row.reason = WRONG, "some of the output was never written, or is NaN"
    return ran


def contender_if_correct(backend, work, row, picked, want, x, weight) -> Optional[Contender]:
    """Return a contender for a library kernel that supports the layer and is correct; else None, and `row` says why."""
    try:
        library.chosen_kernel(x.shape, weight.shape, backend, row.name)
    except UsageError as error:
        row.status, row.reason = SKIPPED, str(error)
        return None
    contender = work.kernel(row.name)
    ran = first_run(work, contender, row)
    if ran is None:
        return None
    got = contender.sample(ran.output, picked)
    row.error = reference.error(got, want)
    if ran.complete and not row.error <= _TOLERANCE[row.precision]:
        row.status, row.reason = WRONG, f"error {row.error:.1e}, more than {_TOLERANCE[row.precision]:.0e}"
    if row.status != WRONG:
        return contender
    found = diagnose(got, x[picked], weight, want)
    if not found.right:
        row.reason += f": {user_kernels.where_wrong(found, contender, ran.output, picked, x, weight)}"
    return None
