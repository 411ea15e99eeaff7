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
