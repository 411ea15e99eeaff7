"""Checks whether an output is correct: all of it, after every call, much faster than by a second convolution.

Some images, chosen after the call, are compared element by element with float64. The other images are compared in sums.
Secret random factors are drawn after the call: s, one per image, and r, one per filter. As convolutions are linear,

    sum over b, m of s[b] r[m] y[b,m]  =  conv(sum over b of s[b] x[b], sum over m of r[m] k[m])

holds for groups of 8 images. The right side is computed in float64 and takes 1/(8 M) of the layer's work. A single
incorrect element changes its group's sum, whatever the factors; several incorrect elements would have to cancel by
chance. With factors of 1 and -1, two errors of equal size would cancel in every second call. The factors are therefore
between 3/4 and 5/4, with random signs. Rounding errors of a correct output are independent, so that they grow with the
square root of the number of summands.

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

_GROUP = 8  # images
_CHUNK = 64  # number of images that are processed at a time; fa2017's output for 64 has 7 MB, which the caches hold
_PICKED = 8  # number of images that are compared element by element
_ALLOWED = 0.25  # allowed error over sqrt(number of summands) x one summand's; a correct float32 sum takes 0.02 of it
_BY_IMAGES = "wrong from image "  # beginning of a diagnosis that names the first incorrect image
CLASSES = ("float32", "tf32 or half", "wrong")


class Found(NamedTuple):
    """Result of checking one output."""

    precision: str  # one of CLASSES
    diagnosis: Diagnosis  # diagnosis of some images, or of the incorrect ones
    deviation: float  # error of the sums over that allowed for their size; infinity for NaN

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
    """Choose images: the first, the last, and random ones in between, which nobody can predict."""
    between = stream.words(_PICKED - 2) % np.uint64(images)
    return np.unique(np.r_[0, images - 1, between.astype(np.int64)])


def _factors(stream: SecretStream, count: int) -> np.ndarray:
    words = stream.words(count)
    return np.where(words & np.uint64(1), 1.0, -1.0) * (0.75 + 0.5 * 2.0**-64 * words)


def _deviations(y, inputs, shape, stream, scale) -> np.ndarray:
    """Return, for each group of images, the largest deviation of a sum: the error of one element over the output's
    scale."""
    # Round the factors to float32, because the sums of x are computed in float32.
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
        # float32 is enough: its error is 2% of the allowed one. einsum is three times as fast as BLAS here, because
        # BLAS does not share cores with other threads.
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
    """Diagnose the first incorrect group of images; the diagnosis has the images' numbers in the whole batch."""
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
