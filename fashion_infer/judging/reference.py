"""Reference implementation in NumPy and float64, with which all kernels and peers are compared."""

from typing import Dict, Sequence

import numpy as np

from ..graph.layers import Convolution, Dense, Layer, MaxPool, Relu, Softmax, Tanh, walk

_SLICE = 32  # number of images that are computed at a time, which limits the memory


def convolve(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Compute the valid, stride-1 cross-correlation of x (B,C,H,W) and weight (M,C,K,K) in float64."""
    size = weight.shape[2], weight.shape[3]
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), size, axis=(2, 3))  # type: ignore[call-overload]
    return np.einsum("bchwpq,mcpq->bmhw", windows, weight.astype(np.float64), optimize=True)


def error(got: np.ndarray, want: np.ndarray) -> float:
    """Return the largest error, relative to the output's largest magnitude; infinity if an output is NaN."""
    with np.errstate(invalid="ignore"):
        worst = np.abs(got - want)
    return float(np.where(np.isnan(worst), np.inf, worst).max() / max(np.abs(want).max(), 1e-30))


def run(layers: Sequence[Layer], weights: Dict[str, np.ndarray], images: np.ndarray) -> np.ndarray:
    """Run a chain of layers in float64, one row per image; for a softmax, return the logarithms of its scores.

    Parameters
    ----------
    layers
        The layers, in network order.
    weights
        The weights and biases, by the names that `walk` gives them.
    images
        The images, (n,C,H,W).
    """
    parts = [_slice(layers, weights, images[at : at + _SLICE]) for at in range(0, len(images), _SLICE)]
    return np.concatenate(parts)


def _slice(layers, weights, x):
    x = x.astype(np.float64)
    for step in walk(layers, x.shape[1:]):
        parameters = [weights[name].astype(np.float64) for name in step.parameters]
        if isinstance(step.layer, Convolution):
            x = convolve(x, *parameters)
        elif isinstance(step.layer, Tanh):
            x = np.tanh(x)
        elif isinstance(step.layer, Relu):
            x = np.maximum(x, 0)
        elif isinstance(step.layer, MaxPool):
            x = _pool(x, step.layer, step.output[1:])
        elif isinstance(step.layer, Dense):
            weight, *bias = parameters
            x = sum(bias, x.reshape(len(x), -1) @ weight.T)
        elif isinstance(step.layer, Softmax):
            x = log_softmax(x)
    return x.reshape(len(x), -1)


def _pool(x, layer, outputs):
    """Compute max pooling of (n,C,H,W) to (n,C,*outputs). Incomplete last windows are padded with minus infinity."""
    step, lacking = layer.step, [(0, 0), (0, 0)]
    for edge, windows in zip(x.shape[2:], outputs):
        lacking.append((0, max(0, (windows - 1) * step + layer.size - edge)))
    padded = np.pad(x, lacking, constant_values=-np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (layer.size, layer.size), axis=(2, 3))
    return windows[:, :, ::step, ::step].max(axis=(4, 5))[:, :, : outputs[0], : outputs[1]]


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Compute the logarithms of the softmax scores of logits with shape (n, classes)."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
