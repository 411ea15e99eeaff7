"""The bound of docs/precision.md as an oracle: a chain's result in float64, and the largest allowed float32 error.

The module needs only NumPy.
"""

import math
from typing import NamedTuple

import numpy as np
import reference

from fashion_infer.graph.layers import Convolution, Dense, Flatten, MaxPool, Relu, Tanh

UNIT = 2.0**-24  # largest relative rounding error of float32
SMALLEST = 2.0**-126  # the smallest normal number of float32
LARGEST = float(np.finfo(np.float32).max)


class Bounded(NamedTuple):
    """Values of a float32 computation, as arrays of one shape."""

    value: np.ndarray  # in float64
    error: np.ndarray  # largest allowed error of a result; infinite where any value is allowed
    overflow: np.ndarray  # where the value may also be infinite or NaN, because an intermediate sum may have overflowed

    @property
    def spread(self):
        """Return `error`, but infinity where a sum may have overflowed: the error of the next layer's input."""
        return np.where(self.overflow, np.inf, self.error)


def times(kernel, n):
    """Return the largest allowed error of a float32-grade CUDA kernel, as a multiple of the bound.

    The multiple is 1, except for the steps of the ladder that add an output's n products one after another: their error
    is that of n roundings (docs/precision.md, "Plain chains").
    """
    if kernel in ("auto", "tensor-core", "tensor-core-tile", "few-products"):
        return 1.0
    if kernel.startswith("tensor-core/") and kernel != "tensor-core/column-strips":  # column-strips has one long chain
        return 1.0
    part = 16 if n <= 256 else 32
    roundings = part + math.ceil(n / part) + 1 if kernel == "implicit-gemm" and n > 25 else n
    return max(1.0, roundings / (4 + math.sqrt(n)))


def exactly(x):
    """Return inputs as bounded values without an error."""
    x = np.asarray(x, np.float64)
    return Bounded(x, np.zeros_like(x), np.zeros(x.shape, bool))


def _sums(multiply, x, weight, n, bias=0.0):
    """Bound sums of n products (and a bias); multiply(x, weight) computes the sums in real numbers."""
    weight, bias, spread = np.asarray(weight, np.float64), np.asarray(bias, np.float64), x.spread
    known, size = np.where(np.isfinite(spread), spread, 0), np.where(np.isfinite(weight), np.abs(weight), 0)
    finite = np.where(np.isfinite(x.value), np.abs(x.value), 0) + known
    magnitude = multiply(finite, size) + np.where(np.isfinite(bias), np.abs(bias), 0)
    error = multiply(known, size) + UNIT * (4 + np.sqrt(n)) * magnitude + SMALLEST
    anything = multiply(np.isinf(spread).astype(np.float64), np.ones_like(size)) > 0
    overflow = magnitude * (1 + UNIT * n) >= LARGEST
    return Bounded(multiply(x.value, weight) + bias, np.where(anything, np.inf, error), overflow)


def convolve(x, weight):
    """Bound a convolution of bounded values with exact weights."""
    return _sums(reference.convolve, x, weight, np.prod(weight.shape[1:]))


def dense(x, weight, bias=None):
    """Bound a dense layer; its bias is one more term of each sum."""
    x = Bounded(*(part.reshape(len(part), -1) for part in x))
    terms = weight.shape[1] + (bias is not None)
    return _sums(lambda a, b: a @ b.T, x, weight, terms, 0.0 if bias is None else bias)


def _monotonic(function, x, rounding=0.0):
    """Bound a non-decreasing function whose own error is at most `rounding` times float32's spacing."""
    spread = x.spread
    value = function(x.value)
    steps = [np.abs(function(x.value + sign * spread) - value) for sign in (-1, 1)]
    error = np.where(spread > 0, np.fmax(*steps), 0)  # the difference of infinities is NaN, but infinities are exact
    largest = np.minimum(np.nan_to_num(np.abs(value)) + np.nan_to_num(error), LARGEST)
    error = error + rounding * np.spacing(largest.astype(np.float32)).astype(np.float64)
    return Bounded(value, np.where(np.isinf(spread), np.inf, error), np.zeros_like(x.overflow))


def softmax(x):
    """Bound a softmax.

    The error of an exponential has three parts: some roundings of its own, the rounding of its argument, and the error
    of its argument. The sum of n exponentials has the error of any sum.
    """
    x = Bounded(*(part.reshape(len(part), -1) for part in x))
    below = x.value - x.value.max(axis=1, keepdims=True)
    e = np.exp(below)
    y = e / e.sum(axis=1, keepdims=True)
    exponent = np.minimum(x.spread + UNIT * (8 + 2 * np.abs(np.where(e > 0, below, 0))), 700)
    total = np.log((y * np.exp(exponent)).sum(axis=1, keepdims=True)) + UNIT * (4 + np.sqrt(y.shape[1]))
    error = y * np.expm1(np.minimum(exponent + total, 700)) + SMALLEST
    anything = np.isinf(x.spread).any(axis=1, keepdims=True) | np.zeros_like(y, bool)
    return Bounded(y, np.where(anything, np.inf, error), np.zeros_like(anything))


def forward(layers, weights, x):
    """Bound the outputs (n, ...) of a chain of layers, given with its weights as for `reference.forward`."""
    x, weights = exactly(x), iter(weights.values() if isinstance(weights, dict) else weights)
    with np.errstate(invalid="ignore", over="ignore"):
        for layer in layers:
            if isinstance(layer, Convolution):
                x = convolve(x, next(weights))
            elif isinstance(layer, Dense):
                weight = next(weights)
                x = dense(x, weight, next(weights) if layer.bias else None)
            elif isinstance(layer, Tanh):
                x = _monotonic(np.tanh, x, rounding=4)
            elif isinstance(layer, Relu):
                x = _monotonic(lambda v: np.maximum(v, 0), x)
            elif isinstance(layer, MaxPool):
                window = layer.size, layer.stride, layer.full
                errors = reference.max_pool(x.spread, *window)
                x = Bounded(reference.max_pool(x.value, *window), errors, np.zeros(errors.shape, bool))
            elif isinstance(layer, Flatten):
                x = Bounded(*(part.reshape(len(part), -1) for part in x))
            else:
                x = softmax(x)
    return x


def excess(y, wanted):
    """Return the largest error of y as a fraction of its bound; above 1, the bound is violated.

    Infinities and NaN must be where they are expected.
    """
    y = np.asarray(y, np.float64).reshape(wanted.value.shape)
    with np.errstate(invalid="ignore"):
        share = np.abs(y - wanted.value) / wanted.error
        same = (y == wanted.value) | (np.isnan(y) & np.isnan(wanted.value))
    share = np.where(np.isfinite(y) & np.isfinite(wanted.value), share, np.inf)
    allowed = same | np.isinf(wanted.error) | (wanted.overflow & ~np.isfinite(y))
    return float(np.where(allowed, 0, share).max())
