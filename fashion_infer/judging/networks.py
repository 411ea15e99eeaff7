"""Networks in NumPy and float64, with which fused networks and peers are compared."""

from typing import Dict, Optional, Sequence, Tuple

import numpy as np

from ..graph.layers import Convolution, Dense, Layer, MaxPool, Relu, Softmax, Tanh, walk
from .reference import convolve

_SLICE = 32  # images that are computed at once, which limits the memory
# Largest allowed error, relative to the range of the logits. fp16 and TF32 keep 11 bits of each operand, and may change
# predictions.
_TOLERANCE = {"float32": 2e-6, "tf32": 1e-2, "fp16": 1e-2}


def judged(got: np.ndarray, want: np.ndarray, precision: Optional[str], scores: bool = False) -> Tuple[float, str]:
    """Return the error of logits, or of logarithms of scores, relative to their range, and why it is too large, or "".

    A score's logarithm is a logit minus a term of all logits. Both have errors, so twice the tolerance is allowed.
    """
    off = np.abs(got - want)
    error = float(np.where(np.isnan(off), np.inf, off).max() / max(want.max() - want.min(), 1e-30))
    if precision not in _TOLERANCE:  # a peer's
        return error, ""
    allowed = (2 if scores else 1) * _TOLERANCE[precision]
    return error, "" if error <= allowed else f"error {error:.1e} of the range, more than {allowed:.0e}"


def run(layers: Sequence[Layer], weights: Dict[str, np.ndarray], images: np.ndarray) -> np.ndarray:
    """Run a chain of layers on (n,C,H,W) images in float64, one row per image; a softmax gives logarithms of scores.

    `weights` has the weights and biases by the names that `walk` gives them.
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
