"""The error bound of a sum and of a chain of layers.

For a sum of n products, |y - exact| <= 2^-24 (4 + sqrt(n)) sum |x||k| + the smallest normal number. A plain float32 sum
usually satisfies this bound. In a chain, the errors of earlier layers propagate: if each layer satisfies its bound, the
result differs from the float64 result by at most the bound of the chain.
"""

import numpy as np

from fashion_infer.graph.layers import Convolution, Dense, Flatten, MaxPool, Relu, Tanh

UNIT = 2.0**-24
SMALLEST = float(np.finfo(np.float32).tiny)
# Allowed error of kernels that round each operand to 11 bits, as a fraction of the sum of the products' magnitudes.
ROUNDED = 2e-3
_TANH = 6  # allowed error of tanh in units of UNIT * |tanh|; 2.42 ulp (docs/fused.md) are at most 4.84 of them
_SOFTMAX = 8


def of_sum(n, magnitude, precision="float32"):
    """Return the bound for sums of n products; `magnitude` has the sums of the products' magnitudes."""
    if precision != "float32":
        return ROUNDED * magnitude + SMALLEST
    return UNIT * (4 + n**0.5) * magnitude + SMALLEST


def worst(xp, got, want, bound):
    """Return scalars of `xp`: whether infinities and NaN are as expected, and the largest share of a bound."""
    finite = xp.isfinite(want)
    alike = finite | (xp.isnan(want) & xp.isnan(got)) | (want == got)
    ratio = xp.nan_to_num(xp.abs(got - want) / bound, nan=float("inf"), posinf=float("inf"))
    return alike.all(), xp.where(finite, ratio, xp.zeros_like(want)).max()


def chain(place, layers, weights, x):
    """Return the last layer's output in float64, and the bound on the error of each output: both (n, values)."""
    xp, arrays = place.xp, iter(place.double(array) for array in weights.values())
    x = place.double(x)
    error = xp.zeros_like(x)
    for layer in layers:
        if isinstance(layer, Convolution):
            k = next(arrays)
            n, size = int(np.prod(k.shape[1:])), xp.abs(k)
            error = place.convolve(error, size) + of_sum(n, place.convolve(xp.abs(x) + error, size))
            x = place.convolve(x, k)
        elif isinstance(layer, Dense):
            k, bias = next(arrays), next(arrays) if layer.bias else 0.0
            x, error = x.reshape(len(x), -1), error.reshape(len(x), -1)
            magnitude = (xp.abs(x) + error) @ xp.abs(k).T + abs(bias)
            error = error @ xp.abs(k).T + of_sum(k.shape[1] + layer.bias, magnitude)
            x = x @ k.T + bias
        elif isinstance(layer, Tanh):
            nearest = xp.tanh(xp.clip(xp.abs(x) - error, 0, None))  # where tanh is steepest within the error
            x = xp.tanh(x)
            error = error * (1 - nearest**2) + _TANH * UNIT * xp.abs(x) + SMALLEST
        elif isinstance(layer, Relu):
            x = xp.clip(x, 0, None)
        elif isinstance(layer, MaxPool):
            x, error = place.pool(x, layer), place.pool(error, layer)
        elif isinstance(layer, Flatten):
            x, error = x.reshape(len(x), -1), error.reshape(len(x), -1)
        else:
            x, error = _softmax(xp, x.reshape(len(x), -1), error.reshape(len(x), -1))
    return x.reshape(len(x), -1), error.reshape(len(x), -1)


def _softmax(xp, x, error):
    below = x - xp.amax(x, 1)[:, None]
    e = xp.exp(below)
    scores = e / e.sum(1)[:, None]
    own = UNIT * (_SOFTMAX + x.shape[1] ** 0.5 + xp.abs(below))
    spread = xp.expm1(xp.clip(2 * xp.amax(error, 1)[:, None], None, 50.0))
    return scores, scores * (spread + own) + SMALLEST
