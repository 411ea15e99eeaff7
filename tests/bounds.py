"""The error bound of docs/precision.md: float64 results of a chain, and the largest allowed errors of float32 results.

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
    """Expected values of a float32 computation with their allowed errors. The fields are arrays of the same shape."""

    value: np.ndarray  # the exact result, in float64
    error: np.ndarray  # largest allowed error; infinite where any value is allowed
    overflow: np.ndarray  # where a result may also be infinite or NaN, because a sum may have overflowed

    @property
    def spread(self):
        """Return the error of the next layer's input: `error`, or infinity where a sum may have overflowed."""
        return np.where(self.overflow, np.inf, self.error)


def times(kernel, n):
    """Return the largest allowed error of a CUDA kernel's float32 results, as a multiple of the bound.

    `n` is the number of products of an output. The multiple is 1, except for the steps of the ladder that add the n
    products one after another: their error is that of n roundings (docs/precision.md, "Plain chains").
    """
    if kernel in ("auto", "few-products") or kernel.startswith("tensor-core"):
        return 1.0
    part = 16 if n <= 256 else 32
    roundings = part + math.ceil(n / part) + 1 if kernel == "implicit-gemm" and n > 25 else n
    return max(1.0, roundings / (4 + math.sqrt(n)))


def exact_inputs(x):
    x = np.asarray(x, np.float64)
    return Bounded(x, np.zeros_like(x), np.zeros(x.shape, bool))


def _sums(multiply, x, weight, n, bias=0.0):
    """Return the bound of sums of n products and a bias. multiply(x, weight) returns the sums in float64."""
    weight, bias, spread = np.asarray(weight, np.float64), np.asarray(bias, np.float64), x.spread
    known, size = np.where(np.isfinite(spread), spread, 0), np.where(np.isfinite(weight), np.abs(weight), 0)
    finite = np.where(np.isfinite(x.value), np.abs(x.value), 0) + known
    magnitude = multiply(finite, size) + np.where(np.isfinite(bias), np.abs(bias), 0)
    error = multiply(known, size) + UNIT * (4 + np.sqrt(n)) * magnitude + SMALLEST
    anything = multiply(np.isinf(spread).astype(np.float64), np.ones_like(size)) > 0
    overflow = magnitude * (1 + UNIT * n) >= LARGEST
    return Bounded(multiply(x.value, weight) + bias, np.where(anything, np.inf, error), overflow)


def convolve(x, weight):
    return _sums(reference.convolve, x, weight, np.prod(weight.shape[1:]))


def dense(x, weight, bias=None):
    """Return the bound of a dense layer, whose bias is one more term of each sum."""
    x = Bounded(*(part.reshape(len(part), -1) for part in x))
    terms = weight.shape[1] + (bias is not None)
    return _sums(lambda a, b: a @ b.T, x, weight, terms, 0.0 if bias is None else bias)


def _monotonic(function, x, rounding=0.0):
    """Return the bound of a non-decreasing function whose own error is at most `rounding` times float32's spacing."""
    spread = x.spread
    value = function(x.value)
    steps = [np.abs(function(x.value + sign * spread) - value) for sign in (-1, 1)]
    error = np.where(spread > 0, np.fmax(*steps), 0)  # equal infinities, whose difference is NaN, have no error
    largest = np.minimum(np.nan_to_num(np.abs(value)) + np.nan_to_num(error), LARGEST)
    error = error + rounding * np.spacing(largest.astype(np.float32)).astype(np.float64)
    return Bounded(value, np.where(np.isinf(spread), np.inf, error), np.zeros_like(x.overflow))


def softmax(x):
    """Return the bound of a softmax.

    The error of an exponential has three parts: its own rounding, the rounding of its argument, and the error of its
    argument. The sum of n exponentials has the error of any sum of n terms.
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
    """Return the bound of the outputs (n, ...) of a chain. `layers` and `weights` are those of `reference.forward`."""
    x, weights = exact_inputs(x), iter(weights.values() if isinstance(weights, dict) else weights)
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
    """Return the largest error in y as a fraction of its bound; a result above 1 violates the bound."""
    y = np.asarray(y, np.float64).reshape(wanted.value.shape)
    with np.errstate(invalid="ignore"):
        share = np.abs(y - wanted.value) / wanted.error
        same = (y == wanted.value) | (np.isnan(y) & np.isnan(wanted.value))
    share = np.where(np.isfinite(y) & np.isfinite(wanted.value), share, np.inf)
    allowed = same | np.isinf(wanted.error) | (wanted.overflow & ~np.isfinite(y))
    return float(np.where(allowed, 0, share).max())
