"""Checks the whole output of a call, much faster than by computing the convolution again.

Some images, chosen after the call, are compared element by element with float64. All images are compared in sums.
Secret random factors are drawn after the call: s, one per image, and r, one per filter. As convolutions are linear,

    sum over b, m of s[b] r[m] y[b,m]  =  conv(sum over b of s[b] x[b], sum over m of r[m] k[m])

holds for groups b of 8 images. The right side is computed in float64 and takes 1/(8 M) of the layer's work. A single
incorrect element changes its group's sum, whatever the factors are. Several incorrect elements are missed only if they
cancel by chance. With factors of 1 and -1, two errors of equal size would cancel in every second call on average. The
factors are therefore between 3/4 and 5/4, with random signs. Rounding errors of a correct output are independent, so
the allowed error of a sum is proportional to the square root of the number of summands.

The images and factors cannot be derived from the seed: they are drawn from new randomness after the call.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from ...graph.shapes import ConvolutionShape
from ...judging import reference
from ...judging.diagnosis import FLOAT32, HALF, Diagnosis, diagnose
from .inputs import Inputs, SecretStream
from .memory import WORKERS

_GROUP = 8  # number of images per group
_CHUNK = 64  # number of images that are processed at a time; fa2017's output for 64 has 7 MB, which the caches hold
_PICKED = 8  # number of images that are compared element by element
# Allowed error of a sum of n elements, divided by sqrt(n) times the allowed error of an element. The error of a correct
# float32 sum is 2% of the allowed one.
_ALLOWED = 0.25
_BY_IMAGES = "wrong from image "  # beginning of a diagnosis that names the first incorrect image
CLASSES = ("float32", "tf32 or half", "wrong")


class Found(NamedTuple):
    """Result of checking one output."""

    precision: str  # one of CLASSES
    diagnosis: Diagnosis  # diagnosis of the chosen images or, if the output is incorrect, of incorrect ones
    deviation: float  # largest error of a sum, scaled to that of one element; infinity for NaN

    @property
    def right(self) -> bool:
        """Whether the output is correct, in float32 or in a lower precision."""
        return self.precision != "wrong"


def scrutinise(y: np.ndarray, inputs: Inputs, shape: ConvolutionShape, stream: SecretStream) -> Found:
    """Check the output of one call.

    Parameters
    ----------
    y
        (B,M,H-K+1,W-K+1) float32.
    inputs
        The inputs that the referee generated, not the present content of shared memory.
    shape
        The call's sizes.
    stream
        Stream from which factors and images are drawn. It must be created after the call.
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
    """Return the indices of the first image, the last image, and some random images, which nobody can predict."""
    between = stream.words(_PICKED - 2) % np.uint64(images)
    return np.unique(np.r_[0, images - 1, between.astype(np.int64)])


def _factors(stream: SecretStream, count: int) -> np.ndarray:
    words = stream.words(count)
    return np.where(words & np.uint64(1), 1.0, -1.0) * (0.75 + 0.5 * 2.0**-64 * words)


def _deviations(y, inputs, shape, stream, scale) -> np.ndarray:
    """Return, for each group of images, the largest error of a sum, divided by the output's scale.

    It is also divided by the error that is allowed for the sum's size, so that limits for one element apply to it.
    """
    # Round the factors to float32 for both sides, because the sums of x are computed in float32.
    factors, across = (_factors(stream, count).astype(np.float32).astype(np.float64) for count in (shape.B, shape.M))
    kernel = np.tensordot(across, inputs.k.astype(np.float64), 1)  # (C,K,K)

    def chunk(start: int) -> np.ndarray:
        with np.errstate(invalid="ignore", over="ignore"):  # NumPy's error state is per thread
            return deviations(start)

    def deviations(start: int) -> np.ndarray:
        stop = min(start + _CHUNK, shape.B)
        groups = np.arange(0, stop - start, _GROUP)
        s = factors[start:stop]
        height, width = shape.output[2:]
        # float32 is sufficient, because its error is 2% of the allowed error. einsum is three times as fast as BLAS
        # here, because several of these threads call BLAS at a time, and BLAS does not share the cores between them.
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
    """Diagnose the first incorrect group of images, with the numbers of the images in the whole batch.

    If no sum is incorrect, or this diagnosis finds no error, return `found`, the diagnosis of the images `picked`.
    """
    bad = off > FLOAT32
    if not bad.any():
        return _renumbered(found, picked)
    first = int(bad.argmax())
    start = max(0, first * _GROUP - _GROUP)  # includes the correct group before, to show where the errors begin
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
