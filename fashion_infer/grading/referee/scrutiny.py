"""Whether an output is right: all of it, after every call, in a fraction of the time of a second convolution.

Some images, picked after the call, are compared element by element with float64. The rest is compared in sums. With
secret random factors s (one an image) and r (one a filter), drawn after the call, and because a convolution is linear,

    sum over b, m of s[b] r[m] y[b,m]  =  conv(sum over b of s[b] x[b], sum over m of r[m] k[m])

for groups of 8 images: the right side in float64, at 1/(8 M) of the layer's work. An element that is wrong
shows in its group's sum whatever the factors; several that are wrong would have to cancel by luck. Factors of 1 and -1
would let two errors of one size cancel in every second call; so they lie between 3/4 and 5/4, of either sign. Rounding
errors of a right output are independent, so that they grow with the root of the number of summands.

Nothing of what is checked follows from the seed: it is drawn when the call is over, and did not exist before.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from ...graph.shapes import ConvolutionShape
from ...judging import reference
from ...judging.diagnosis import FLOAT32, HALF, Diagnosis, diagnose
from .inputs import Inputs, SecretStream
from .memory import WORKERS

_GROUP = 8  # images
_CHUNK = 64  # images at a time: fa2017's output of as many is 7 MB, which the caches hold
_PICKED = 8  # images that are compared element by element
_ALLOWED = 0.25  # allowed error over sqrt(number of summands) x one summand's; a correct float32 sum takes 0.02 of it
_BY_IMAGES = "wrong from image "  # how such a diagnosis begins
CLASSES = ("float32", "tf32 or half", "wrong")


class Found(NamedTuple):
    """Result of checking one output."""

    precision: str  # one of CLASSES
    diagnosis: Diagnosis  # diagnosis of some images, or of the incorrect ones
    deviation: float  # error of the sums over that allowed for their size; infinity for NaN

    @property
    def right(self) -> bool:
        """Whether it is a correct kernel's, in one precision or the other."""
        return self.precision != "wrong"


def scrutinise(y: np.ndarray, inputs: Inputs, shape: ConvolutionShape, stream: SecretStream) -> Found:
    """Look at one call's output.

    Parameters
    ----------
    y
        (B,M,H-K+1,W-K+1) float32.
    inputs
        What the referee gave; not what lies in shared memory now.
    shape
        The call's sizes.
    stream
        Factors and images are drawn from it: one that is made after the call.
    """
    picked = _picked(stream, shape.B)
    found = diagnose(y[picked], inputs.x[picked], inputs.k)
    off = _deviations(y, inputs, shape, stream, found.scale)
    worst = float(off.max())
    precision = found.precision
    if precision != "wrong":
        by_sums = CLASSES[0] if worst <= FLOAT32 else CLASSES[1] if worst <= HALF else CLASSES[2]
        precision = max(precision, by_sums, key=CLASSES.index)
    if precision == "wrong":
        found = _located(y, inputs, off, found, picked)
    return Found(precision, found, worst)


def _picked(stream: SecretStream, images: int) -> np.ndarray:
    """The first, the last, and some between that nobody knows before."""
    between = stream.words(_PICKED - 2) % np.uint64(images)
    return np.unique(np.r_[0, images - 1, between.astype(np.int64)])


def _factors(stream: SecretStream, count: int) -> np.ndarray:
    words = stream.words(count)
    return np.where(words & np.uint64(1), 1.0, -1.0) * (0.75 + 0.5 * 2.0**-64 * words)


def _deviations(y, inputs, shape, stream, scale) -> np.ndarray:
    """For each group of images the largest deviation of a sum, as an error of one element over the output's scale."""
    # Sums of the same values in float32, in which the sums of x are made.
    factors, across = (_factors(stream, count).astype(np.float32).astype(np.float64) for count in (shape.B, shape.M))
    kernel = np.tensordot(across, inputs.k.astype(np.float64), 1)  # (C,K,K)

    def chunk(start: int) -> np.ndarray:
        with np.errstate(invalid="ignore", over="ignore"):  # a thread's own
            return deviations(start)

    def deviations(start: int) -> np.ndarray:
        stop = min(start + _CHUNK, shape.B)
        groups = np.arange(0, stop - start, _GROUP)
        s = factors[start:stop]
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
