"""Compares all outputs of a call with the exact result, and says which arithmetic can give such errors.

Some images, drawn after the call, are compared output by output with float64. All images are compared in sums: random
factors s, one per image, and r, one per filter, are drawn after the call. As a convolution is linear in both,

    sum over b, m of s[b] r[m] y[b,m]  =  conv(sum over b of s[b] x[b], sum over m of r[m] k[m])

holds for each group of images b. The right side takes 1/(8 M) of the layer's work. A wrong output changes its group's
sum, whatever the factors are; several cancel only by chance, because the factors are between 3/4 and 5/4 with random
signs.

The classes follow from models of rounding, not from a share of the largest output. With n products per output, A = sum
|x| |k| and R = sqrt(sum x^2 k^2):

- float32: |error| <= 2^-24 (4 + sqrt n) A, the published bound (docs/precision.md). On inputs that are not random, a
  plain chain may need (n + 1) 2^-24 A; A is then the image's largest, because transforms spread errors.
- tf32 or half: operands rounded or truncated to 11 bits change each product by up to 2^-9 of itself, on average by up
  to 2^-10 (truncation shrinks), with a standard deviation of at most 2^-11.3 (truncation of both). So |error| <=
  2^-10 |y| + 8 * 2^-11.3 R on random inputs, and never more than 2^-9 A.
- half sums: adding n products in half precision rounds each partial sum. On random inputs the partial sums walk to y,
  which adds a standard deviation of 2^-12.3 sqrt(n) sqrt(R^2 / 2 + y^2 / 3); never more than n 2^-11 A.

A sum of N outputs has an A and an R of its own. Independent errors grow with sqrt N, so its bounds follow from its R,
and that of float32 from sqrt N times an output's. docs/precision.md has the rates of false refusals.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, Optional, Tuple

import numpy as np

from . import reference
from .inputs import Inputs, KeyedStream

CLASSES = ("float32", "tf32 or half", "half sums", "incorrect")
INCORRECT = CLASSES[-1]
_INEXACT = CLASSES[:-1]
_GROUP = 8  # images per sum
_CHUNK = 64  # images that are summed at once: 7 MB of fa2017's output, which the caches hold
_PICKED = 8  # images that are compared output by output, if the sums are right
_ALL = 16  # images up to which all are compared output by output
_LOCATED = 24  # wrong images that are looked at output by output
_UNIT = 2.0**-24
_SMALLEST = 2.0**-126
_DEVIATIONS = 8.0  # standard deviations that a random error may reach: 1 in 10^15
_SHRINK, _SPREAD, _WORST = 2.0**-10, 2.0**-11.3, 2.0**-9  # of a product of two operands with 11 bits
_WALK = 2.0**-12.3  # standard deviation of a rounding in half precision, relative to the rounded sum
# Rounding changes nearly every output. If fewer than _EVERYWHERE of them are outside of the float32 bound, and some by
# far, it is no rounding, unless there are too few outputs to tell.
_EVERYWHERE, _FEW = 0.1, 20
_FAR, _FAR_SUM = 8.0, 2.0
_FILTERS = 32  # filters that are summed in float32; longer sums would round too much
_WORKERS = os.cpu_count() or 1


class ComparedOutputs(NamedTuple):
    """The outputs of a call beside the exact ones."""

    precision: str  # one of CLASSES
    images: np.ndarray  # numbers of the images that were compared output by output
    off: np.ndarray  # (len(images),M,H-K+1,W-K+1) bool: which of their outputs are incorrect
    y: np.ndarray  # their outputs, float32
    want: np.ndarray  # the exact ones, float64
    error: np.ndarray  # the errors, float64; infinity for NaN
    of_bound: float  # the largest error as a multiple of the float32 bound
    wrong_images: np.ndarray  # (B,) bool: incorrect images, or those of an incorrect sum that were not looked at

    @property
    def right(self) -> bool:
        return self.precision != INCORRECT

    @property
    def wrong(self) -> int:
        return int(self.off.sum())

    @property
    def total(self) -> int:
        return int(self.off.size)

    @property
    def largest(self) -> float:
        """Largest error; infinity for NaN."""
        return float(self.error.max())

    @property
    def scale(self) -> float:
        return float(np.abs(self.want).max())

    @property
    def first(self) -> Optional[Tuple[int, ...]]:
        """Image, filter, row and column of the first incorrect output, by the image's number in the batch."""
        if not self.off.any():
            return None
        image, *rest = self._first
        return (int(self.images[image]), *rest)

    @property
    def got(self) -> float:
        return float(self.y[self._first])

    @property
    def wanted(self) -> float:
        return float(self.want[self._first])

    @property
    def _first(self) -> Tuple[int, ...]:
        return tuple(int(i) for i in np.unravel_index(int(self.off.argmax()), self.off.shape))


def worst(*classes: str) -> str:
    """Return the least precise of some classes; float32 of none."""
    return max((CLASSES[0], *classes), key=CLASSES.index)


def compare(
    y: np.ndarray, inputs: Inputs, stream: KeyedStream, random: bool = True, allowed: str = CLASSES[2]
) -> ComparedOutputs:
    """Compare the (B,M,H-K+1,W-K+1) float32 outputs of one call on its inputs.

    `stream` must not be known to the kernel before the call. `random` says that the inputs are the judge's random ones;
    for others, such as a network's own layers, the bounds are the worst cases. Outputs of a class that is less precise
    than `allowed` are incorrect.
    """
    most = CLASSES.index(allowed)
    count = len(y)
    picked = np.arange(count)
    if count > _ALL:  # the first image, the last one, and some that nobody can predict
        picked = np.unique(np.r_[0, count - 1, stream.below(count, _PICKED - 2)])
    exact = _Exact(y[picked], inputs, picked, random)
    kind, wrong_images = exact.kind, np.zeros(count, bool)
    if count > _ALL:
        by_group = _by_sums(y, inputs, stream, random)
        kind = max(kind, next((at for at, ratios in enumerate(by_group) if (ratios <= 1).all()), len(_INEXACT)))
        if kind > most or (not exact.rounded_everywhere and (by_group[0] > _FAR_SUM).any()):
            kind = len(_INEXACT)
            wrong_images = np.repeat(by_group[min(exact.usual, most)] > 1, _GROUP)[:count]
            wrong_images[picked] |= exact.off.any(axis=(1, 2, 3))
            picked = _located(wrong_images)
            exact = _Exact(y[picked], inputs, picked, random)
    kind = kind if kind <= most else len(_INEXACT)
    off = exact.off if kind == len(_INEXACT) else np.zeros(exact.error.shape, bool)
    wrong_images[picked] = off.any(axis=(1, 2, 3))
    return ComparedOutputs(CLASSES[kind], picked, off, exact.y, exact.want, exact.error, exact.of_bound, wrong_images)


class _Exact:
    """Some images, compared output by output with float64."""

    def __init__(self, y: np.ndarray, inputs: Inputs, picked: np.ndarray, random: bool):
        columns, filters = reference.columns(inputs.x[picked], inputs.k.shape[2]), inputs.k.reshape(len(inputs.k), -1).T

        def sums(columns: np.ndarray, filters: np.ndarray) -> np.ndarray:
            return (columns @ filters).transpose(0, 3, 1, 2)

        self.y, self.want = y, sums(columns.astype(np.float64), filters.astype(np.float64))
        with np.errstate(invalid="ignore", over="ignore"):
            error = np.abs(y - self.want)
        self.error = np.where(np.isnan(error), np.inf, error)
        total = sums(np.abs(columns), np.abs(filters))
        terms, root = total > 0, None  # outputs of no terms are exact in every precision
        if random:
            root = np.sqrt(sums(columns**2, filters**2))
        else:
            total = total.max(axis=(1, 2, 3), keepdims=True)
        limits = _limits(len(filters), total, root, np.abs(self.want), 1)
        self._outside = [self.error > limit for limit in limits]
        self.of_bound = float((self.error / limits[0]).max())
        self._far = self.of_bound > _FAR
        self._shares = [outside[terms].mean() if terms.any() else 0.0 for outside in self._outside]
        self._few = int(terms.sum()) < _FEW

    @property
    def rounded_everywhere(self) -> bool:
        """Whether so many outputs are inexact that their operands or sums may have been rounded."""
        return self._few or self._shares[0] >= _EVERYWHERE

    @property
    def kind(self) -> int:
        """Number of the class in CLASSES."""
        kind = next((at for at, outside in enumerate(self._outside) if not outside.any()), len(_INEXACT))
        return len(_INEXACT) if self._far and not self.rounded_everywhere else kind

    @property
    def usual(self) -> int:
        """Number of the class of most outputs that are correct in some class."""
        within = [share - self._shares[-1] for share in self._shares]
        return next(at for at, share in enumerate(within) if share < _EVERYWHERE or at == len(within) - 1)

    @property
    def off(self) -> np.ndarray:
        """Which outputs are incorrect: outside of the usual class or, if none is, the least exact ones."""
        outside = self._outside[self.usual]
        return outside if outside.any() else self._outside[0]


def _limits(n: int, total, root, exact, count):
    """Return the largest errors of the classes float32, tf32 or half, and half sums.

    `total` and `root` are A and R of an output, or of a sum of `count` outputs; `root` is None for inputs that are not
    random.
    """
    if root is None:
        chain = _UNIT * (n + 1) * total + count * _SMALLEST
        return chain, _WORST * total + chain, (_WORST + n * 2.0**-11) * total + chain
    plain = _UNIT * (4 + n**0.5) * total / count**0.5 + count * _SMALLEST
    operands = np.minimum(_WORST * total, _SHRINK * exact + _DEVIATIONS * _SPREAD * root)
    walk = np.sqrt(root**2 / 2 + exact**2 / 3)
    sums = np.minimum(n * 2.0**-11 * total, _DEVIATIONS * _WALK * n**0.5 * walk + 2.0**-11 * exact)
    return plain, operands + plain, operands + sums + plain


def _located(wrong: np.ndarray) -> np.ndarray:
    """Return the images to look at: the first incorrect ones, those before them, and the last image."""
    first = int(wrong.argmax())
    start = max(0, first - _GROUP)
    return np.unique(np.r_[np.arange(start, min(len(wrong), start + _LOCATED)), len(wrong) - 1])


def _factors(stream: KeyedStream, count: int) -> np.ndarray:
    """Return float32 factors from 3/4 to 5/4 with random signs."""
    words = stream.words(count)
    return (np.where(words & np.uint64(1), 1.0, -1.0) * (0.75 + 0.5 * 2.0**-64 * words)).astype(np.float32)


def _by_sums(y: np.ndarray, inputs: Inputs, stream: KeyedStream, random: bool) -> np.ndarray:
    """Return, for each class and group of images, the largest error of a sum as a multiple of what the class allows."""
    x, k = inputs
    (count, filters), n = y.shape[:2], k[0].size
    factors, across = _factors(stream, count), _factors(stream, filters)
    summed, size = np.tensordot(across, k, 1), np.tensordot(np.abs(across), np.abs(k), 1)

    def bounds(scaled: np.ndarray) -> Tuple[np.ndarray, Optional[np.ndarray]]:
        """Return A and R of the sums over groups of images, from the images times their factors."""
        if not random:
            return _convolved(_grouped(np.abs(scaled)), size).max(axis=1, keepdims=True), None
        # All groups are alike, so the means of A and R serve them all.
        squares = np.tensordot(across**2, k**2, 1)
        total = _convolved(_GROUP * np.abs(scaled).mean(axis=0, keepdims=True), size)
        return total, np.sqrt(_convolved(_GROUP * (scaled**2).mean(axis=0, keepdims=True), squares))

    usual = bounds(factors[:_CHUNK, None, None, None] * x[:_CHUNK]) if random else None

    def chunk(start: int) -> np.ndarray:
        part = slice(start, min(start + _CHUNK, count))
        with np.errstate(invalid="ignore", over="ignore"):  # NumPy's error state is per thread
            scaled = factors[part, None, None, None] * x[part]
            got = _grouped(factors[part, None] * _over_filters(y[part].reshape(-1, filters, y[0, 0].size), across))
            want = _convolved(_grouped(scaled), summed)
            total, root = usual or bounds(scaled)
            error = np.abs(got - want)
            error = np.where(np.isnan(error), np.inf, error)
            slack = _FILTERS * _UNIT * total / (_GROUP * filters) ** 0.5  # of the float32 sums in here
            limits = _limits(n, total, root, np.abs(want), _GROUP * filters)
            return np.stack([(error / (limit + slack + _SMALLEST)).max(axis=1) for limit in limits])

    with ThreadPoolExecutor(_WORKERS) as pool:
        return np.concatenate(list(pool.map(chunk, range(0, count, _CHUNK))), axis=1)


def _grouped(values: np.ndarray) -> np.ndarray:
    """Sum (B,...) over groups of images."""
    return np.add.reduceat(values, np.arange(0, len(values), _GROUP))


def _convolved(x: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    """Convolve (G,C,H,W) with one filter (C,K,K) in float32; return (G, outputs)."""
    side = kernel.shape[1]
    height, width = x.shape[2] - side + 1, x.shape[3] - side + 1
    sums = np.zeros((len(x), height, width))
    for p in range(side):
        for q in range(side):
            sums += np.einsum("gchw,c->ghw", x[:, :, p : p + height, q : q + width], kernel[:, p, q])
    return sums.reshape(len(x), -1)


def _over_filters(y: np.ndarray, across: np.ndarray) -> np.ndarray:
    """Sum (B,M,P) outputs over M with the factors `across`; einsum is faster here than BLAS in several threads."""
    pieces = range(0, len(across), _FILTERS)
    parts = [np.einsum("m,bmp->bp", across[at : at + _FILTERS], y[:, at : at + _FILTERS]) for at in pieces]
    return np.asarray(parts[0] if len(parts) == 1 else np.sum(parts, axis=0, dtype=np.float64))
