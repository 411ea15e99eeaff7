"""What every contender is compared with: NumPy in float64."""

import numpy as np

_SLICE = 32  # images at a time: fa2019's first convolution looks at 32 times 0.9 MB in float64


def convolve(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Valid, stride-1 cross-correlation: x (B,C,H,W), weight (M,C,K,K) to (B,M,H-K+1,W-K+1), in float64."""
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), weight.shape[2:], axis=(2, 3))
    return np.einsum("bchwpq,mcpq->bmhw", windows, weight.astype(np.float64), optimize=True)


def run(steps, images: np.ndarray) -> np.ndarray:
    """The outputs of a network's steps, one row an image, in float64; for a softmax the logarithms of its scores.

    Parameters
    ----------
    steps
        As `random_network.make` gives them.
    images
        (n,C,H,W).
    """
    return np.concatenate([_slice(steps, images[at : at + _SLICE]) for at in range(0, len(images), _SLICE)])


def _slice(steps, x):
    x = x.astype(np.float64)
    for step in steps:
        if step.kind == "convolution":
            x = convolve(x, step.weight)
        elif step.kind == "tanh":
            x = np.tanh(x)
        elif step.kind == "pool":
            n, c, h, w, s = *x.shape, step.size
            x = x[:, :, : h // s * s, : w // s * s].reshape(n, c, h // s, s, w // s, s).max(axis=(3, 5))
        elif step.kind == "dense":
            x = x.reshape(len(x), -1) @ step.weight.T.astype(np.float64) + step.bias
        elif step.kind == "softmax":
            x = log_softmax(x)
    return x.reshape(len(x), -1)


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Logarithms of the scores that a softmax makes of (n, classes)."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
