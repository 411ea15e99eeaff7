"""Oracles that are not our code: NumPy in float64. Of the package they use the names of the layers alone."""

import numpy as np

from fashion_infer.graph.layers import Convolution, Dense, Flatten, MaxPool, Tanh


def convolve(x, weight):
    """Valid, stride-1 cross-correlation in float64. x (B,C,H,W), weight (M,C,K,K) -> (B,M,H-K+1,W-K+1)."""
    k = weight.shape[2]
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), (k, k), axis=(2, 3))
    return np.einsum("bchwpq,mcpq->bmhw", windows, weight.astype(np.float64), optimize=True)


def relative_error(got, wanted):
    """The largest error over the largest magnitude."""
    return np.abs(got - wanted).max() / max(np.abs(wanted).max(), 1e-30)


def pixels(rng, shape):
    """Random uint8 images."""
    return rng.integers(0, 256, shape, dtype=np.uint8)


def weights(rng, m, c, k):
    """Random float32 filters."""
    return rng.standard_normal((m, c, k, k)).astype(np.float32)


def forward(layers, weights, x):
    """A chain of layers in float64.

    `layers` holds those of `fashion_infer.graph.layers`; `weights` the arrays that they read, in their order, as a
    sequence or a dictionary. Returns the last layer's output, (n, ...).
    """
    x, weights = x.astype(np.float64), iter(weights.values() if isinstance(weights, dict) else weights)
    for layer in layers:
        if isinstance(layer, Convolution):
            x = convolve(x, next(weights))
        elif isinstance(layer, Tanh):
            x = np.tanh(x)
        elif isinstance(layer, MaxPool):
            n, c, h, w = x.shape
            k = layer.size
            x = x[:, :, : h // k * k, : w // k * k].reshape(n, c, h // k, k, w // k, k).max(axis=(3, 5))
        elif isinstance(layer, Flatten):
            x = x.reshape(len(x), -1)
        elif isinstance(layer, Dense):
            x = x.reshape(len(x), -1) @ next(weights).astype(np.float64).T
            x = x + next(weights) if layer.bias else x
        else:
            flat = x.reshape(len(x), -1)
            e = np.exp(flat - flat.max(axis=1, keepdims=True))
            x = (e / e.sum(axis=1, keepdims=True)).reshape(x.shape)
    return x
