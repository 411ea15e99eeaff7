"""Whether an output is right: all of it, after every call, in a fraction of the time of a second convolution.

Some images, picked after the call, are compared element by element with float64. The rest is compared in sums. With
secret random signs s (one an image) and r (one a filter), drawn after the call, and because a convolution is linear,

    sum over b, m of s[b] r[m] y[b,m]  =  conv(sum over b of s[b] x[b], sum over m of r[m] k[m])

for groups of 8 images: the right side in float64, at 1/(8 M) of the layer's work. An element that is wrong
shows in its group's sum whatever the signs; several that are wrong would have to cancel by luck. Rounding errors of a
right output are independent, so that they grow with the root of the number of summands.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from ...graph.shapes import ConvolutionShape
from ...judging import reference
from ...judging.diagnosis import FLOAT32, HALF, Diagnosis, diagnose
from .inputs import Inputs
from .memory import WORKERS

_GROUP = 8  # images
_CHUNK = 64  # images at a time: fa2017's output of as many is 7 MB, which the caches hold
_PICKED = 8  # images that are compared element by element
_ALLOWED = (
    0.25  # of the root of the summands' number, in the largest error of one; a right float32 sum takes 0.02 of it
)
_BY_IMAGES = "wrong from image "  # how such a diagnosis begins
CLASSES = ("float32", "tf32 or half", "wrong")


class Found(NamedTuple):
    """What was found of one output."""

    precision: str  # of CLASSES
    diagnosis: Diagnosis  # of some images, or of those that are wrong
    deviation: float  # of the sums, as a share of what is allowed an element of this size; infinity for NaN

    @property
    def right(self) -> bool:
        """Whether it is a correct kernel's, in one precision or the other."""
        return self.precision != "wrong"


def scrutinise(y: np.ndarray, inputs: Inputs, shape: ConvolutionShape, rng: np.random.Generator) -> Found:
    """Look at one call's output.

    Parameters
    ----------
    y
        (B,M,H-K+1,W-K+1) float32.
    inputs
        What the referee gave; not what lies in shared memory now.
    shape
        The call's sizes.
    rng
        Signs and images are drawn from it now, after the call.
    """
    picked = _picked(rng, shape.B)
    found = diagnose(y[picked], inputs.x[picked], inputs.k)
    off = _deviations(y, inputs, shape, rng, found.scale)
    worst = float(off.max())
    precision = found.precision
    if precision != "wrong":
        by_sums = CLASSES[0] if worst <= FLOAT32 else CLASSES[1] if worst <= HALF else CLASSES[2]
        precision = max(precision, by_sums, key=CLASSES.index)
    if precision == "wrong":
        found = _located(y, inputs, off, found, picked)
    return Found(precision, found, worst)


def _picked(rng: np.random.Generator, images: int) -> np.ndarray:
    """The first, the last, and some between that nobody knows before."""
    return np.unique(np.r_[0, images - 1, rng.integers(0, images, _PICKED - 2)])


def _deviations(y, inputs, shape, rng, scale) -> np.ndarray:
    """For each group of images the largest deviation of a sum, as an error of one element over the output's scale."""
    signs = rng.integers(0, 2, shape.B) * 2.0 - 1.0
    across = rng.integers(0, 2, shape.M) * 2.0 - 1.0
    kernel = np.tensordot(across, inputs.k.astype(np.float64), 1)  # (C,K,K)

    def chunk(start: int) -> np.ndarray:
        with np.errstate(invalid="ignore", over="ignore"):  # a thread's own
            return deviations(start)

    def deviations(start: int) -> np.ndarray:
        stop = min(start + _CHUNK, shape.B)
        groups = np.arange(0, stop - start, _GROUP)
        s = signs[start:stop]
        height, width = shape.output[2:]
        # In float32, whose error is 2% of what is allowed; three times as fast as BLAS, which shares no cores.
        part = np.einsum("m,bmp->bp", across.astype(np.float32), y[start:stop].reshape(stop - start, shape.M, -1))
        got = np.add.reduceat(s[:, None] * part, groups)
        x = np.add.reduceat(s[:, None].astype(np.float32) * inputs.x[start:stop].reshape(stop - start, -1), groups)
        x = x.astype(np.float64).reshape(len(groups), *shape.data[1:])
        want = np.zeros((len(groups), height, width))
        for p in range(shape.K):
            for q in range(shape.K):
                want += np.einsum("gchw,c->ghw", x[:, :, p : p + height, q : q + width], kernel[:, p, q])
        members = np.diff(np.r_[groups, stop - start])
        off = np.abs(got - want.reshape(len(groups), -1)).max(axis=1)
        off = np.where(np.isfinite(off), off, np.inf)
        return off / (scale * np.maximum(1.0, _ALLOWED * np.sqrt(members * shape.M)))

    with ThreadPoolExecutor(WORKERS) as pool:
        return np.concatenate(list(pool.map(chunk, range(0, shape.B, _CHUNK))))


def _located(y, inputs: Inputs, off: np.ndarray, found: Diagnosis, picked: np.ndarray) -> Diagnosis:
    """The diagnosis of the first group that is wrong, with the numbers that its images have among all."""
    bad = off > FLOAT32
    if not bad.any():
        return _renumbered(found, picked)
    first = int(bad.argmax())
    start = max(0, first * _GROUP - _GROUP)  # with the group before, which is right: that shows where it begins
    images = np.arange(start, min(len(y), (first + 2) * _GROUP))
    looked = diagnose(y[images], inputs.x[images], inputs.k, reference.convolve(inputs.x[images], inputs.k))
    if looked.first is None:
        return _renumbered(found, picked)
    looked = _renumbered(looked, images)
    if looked.reason.startswith(_BY_IMAGES) and not bad[first:].all():
        return looked._replace(reason="")  # later images are right again
    return looked


def _renumbered(found: Diagnosis, images: np.ndarray) -> Diagnosis:
    if found.first is None:
        return found
    reason = found.reason
    if found.reason.startswith(_BY_IMAGES):
        number = int(found.reason[len(_BY_IMAGES) :].split()[0])
        reason = f"{_BY_IMAGES}{images[number]} on: {found.reason.partition(' on: ')[2]}"
    return found._replace(first=(int(images[found.first[0]]), *found.first[1:]), reason=reason)
