"""The promise of docs/precision.md as an oracle: what a chain of layers gives in float64, and how far a result of
float32 grade may be from it. NumPy alone."""

import math
from typing import NamedTuple

import numpy as np
import reference

from fashion_infer.graph.layers import Convolution, Dense, Flatten, MaxPool, Relu, Tanh

UNIT = 2.0**-24  # float32 rounds by this, of a value's magnitude, at most
SMALLEST = 2.0**-126  # the smallest normal number
LARGEST = float(np.finfo(np.float32).max)


class Bounded(NamedTuple):
    """Values of a float32 computation. Arrays of one shape."""

    value: np.ndarray  # in float64
    error: np.ndarray  # how far from it a result may be; infinite where it may be anything
    overflow: np.ndarray  # where it may also be an infinity or NaN, because a sum on the way to it may have been

    @property
    def spread(self):
        """`error`, infinite where there may have been an overflow: what the next layer reckons with."""
        return np.where(self.overflow, np.inf, self.error)


def times(kernel, n):
    """How many times the bound a CUDA kernel of float32 grade may reach: 1, or for the steps of the ladder that add an
    output's n products one after the other what as many roundings are (docs/precision.md, "Plain chains")."""
    if kernel in ("auto", "tensor-core", "tensor-core-tile", "few-products"):
        return 1.0
    if kernel.startswith("tensor-core/") and kernel != "tensor-core/column-strips":  # which has one long chain
        return 1.0
    part = 16 if n <= 256 else 32
    roundings = part + math.ceil(n / part) + 1 if kernel == "implicit-gemm" and n > 25 else n
    return max(1.0, roundings / (4 + math.sqrt(n)))


def exactly(x):
    """The inputs, which have no error."""
    x = np.asarray(x, np.float64)
    return Bounded(x, np.zeros_like(x), np.zeros(x.shape, bool))


def _sums(multiply, x, weight, n, bias=0.0):
    """Sums of n products (and a bias). multiply(x, weight) is what they are in real numbers."""
    weight, bias, spread = np.asarray(weight, np.float64), np.asarray(bias, np.float64), x.spread
    known, size = np.where(np.isfinite(spread), spread, 0), np.where(np.isfinite(weight), np.abs(weight), 0)
    finite = np.where(np.isfinite(x.value), np.abs(x.value), 0) + known
    magnitude = multiply(finite, size) + np.where(np.isfinite(bias), np.abs(bias), 0)
    error = multiply(known, size) + UNIT * (4 + np.sqrt(n)) * magnitude + SMALLEST
    anything = multiply(np.isinf(spread).astype(np.float64), np.ones_like(size)) > 0
    overflow = magnitude * (1 + UNIT * n) >= LARGEST
    return Bounded(multiply(x.value, weight) + bias, np.where(anything, np.inf, error), overflow)


def convolve(x, weight):
    """A convolution of bounded values with exact weights."""
    return _sums(reference.convolve, x, weight, np.prod(weight.shape[1:]))


def dense(x, weight, bias=None):
    """A dense layer; its bias is one term more."""
    x = Bounded(*(part.reshape(len(part), -1) for part in x))
    terms = weight.shape[1] + (bias is not None)
    return _sums(lambda a, b: a @ b.T, x, weight, terms, 0.0 if bias is None else bias)


def _monotonic(function, x, rounding=0.0):
    """A function that never falls, itself wrong by `rounding` of float32's spacing at most."""
    spread = x.spread
    value = function(x.value)
    steps = [np.abs(function(x.value + sign * spread) - value) for sign in (-1, 1)]
    error = np.where(spread > 0, np.fmax(*steps), 0)  # of infinities the difference is NaN, but they are exact
    largest = np.minimum(np.nan_to_num(np.abs(value)) + np.nan_to_num(error), LARGEST)
    error = error + rounding * np.spacing(largest.astype(np.float32)).astype(np.float64)
    return Bounded(value, np.where(np.isinf(spread), np.inf, error), np.zeros_like(x.overflow))


def softmax(x):
    """Each exponential is wrong by a few roundings, those of its argument, and what the argument was wrong by; the sum
    of n of them as any sum."""
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
    """A chain of layers as `reference.forward` takes it, as bounded values, (n, ...)."""
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
    """The largest share that an error has of what it may be: above 1 the promise is broken. Infinities and NaN must be
    where they are wanted."""
    y = np.asarray(y, np.float64).reshape(wanted.value.shape)
    with np.errstate(invalid="ignore"):
        share = np.abs(y - wanted.value) / wanted.error
        same = (y == wanted.value) | (np.isnan(y) & np.isnan(wanted.value))
    share = np.where(np.isfinite(y) & np.isfinite(wanted.value), share, np.inf)
    allowed = same | np.isinf(wanted.error) | (wanted.overflow & ~np.isfinite(y))
    return float(np.where(allowed, 0, share).max())
