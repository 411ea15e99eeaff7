"""Oracles that are not our code: NumPy in float64, and MXNet's own operators."""

import numpy as np


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


# ---- whole networks: a chain of layers, each a tuple of its kind and sizes -------------------------------------------


def forward(layers, weights, x):
    """A chain of layers in float64.

    `layers` holds ("convolution", K, M), ("tanh",), ("pool",), ("flatten",), ("dense", units, bias) and ("softmax",);
    `weights` the arrays that they read, in their order. Returns the last layer's output, (n, ...).
    """
    x, weights = x.astype(np.float64), iter(weights)
    for kind, *sizes in layers:
        if kind == "convolution":
            x = convolve(x, next(weights))
        elif kind == "tanh":
            x = np.tanh(x)
        elif kind == "pool":
            n, c, h, w = x.shape
            x = x[:, :, : h // 2 * 2, : w // 2 * 2].reshape(n, c, h // 2, 2, w // 2, 2).max(axis=(3, 5))
        elif kind == "flatten":
            x = x.reshape(len(x), -1)
        elif kind == "dense":
            x = x.reshape(len(x), -1) @ next(weights).astype(np.float64).T
            x = x + next(weights) if sizes[1] else x
        else:
            flat = x.reshape(len(x), -1)
            e = np.exp(flat - flat.max(axis=1, keepdims=True))
            x = (e / e.sum(axis=1, keepdims=True)).reshape(x.shape)
    return x
