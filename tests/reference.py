"""Oracles that are not our code: NumPy in float64. Of the package they use the names of the layers alone."""

import functools
import re
from pathlib import Path

import numpy as np

from fashion_infer.graph.layers import Convolution, Dense, Flatten, MaxPool, Relu, Tanh

# What the operator mode runs of fa2017: a node's name and its operator.
FA2017_NODES = [
    ("new0", "New"),
    ("activation0", "Activation"),
    ("pooling0", "Pooling"),
    ("flatten0", "Flatten"),
    ("fullyconnected0", "FullyConnected"),
    ("activation1", "Activation"),
    ("fullyconnected1", "FullyConnected"),
    ("softmax", "SoftmaxOutput"),
]


def convolve(x, weight):
    """Valid, stride-1 cross-correlation in float64. x (B,C,H,W), weight (M,C,K,K) -> (B,M,H-K+1,W-K+1).

    An image at a time as one product of matrices, filters (M, C*K*K) by shifted images (C*K*K, pixels): 3 to 15 times
    as fast as `einsum` over windows.
    """
    (n, c, h, w), (m, _, k, _) = x.shape, weight.shape
    rows, columns = h - k + 1, w - k + 1
    filters = weight.astype(np.float64, copy=False).reshape(m, c * k * k)
    shifted = np.empty((c, k, k, rows, columns))
    y = np.empty((n, m, rows, columns))
    for image, out in zip(x, y):
        for p in range(k):
            for q in range(k):
                shifted[:, p, q] = image[:, p : p + rows, q : q + columns]
        np.matmul(filters, shifted.reshape(c * k * k, rows * columns), out=out.reshape(m, rows * columns))
    return y


def max_pool(x, size, stride=None, full=False):
    """The largest value of each window of `size` by `size`, a window every `stride` pixels (default: side by side).

    x (B,C,H,W). With `full` there are as many windows as cover the image, the last ones smaller; else only whole ones.
    """
    stride = stride or size
    whole = [edge - size + stride if full else edge - size + 1 for edge in x.shape[2:]]
    rows, columns = (range(0, end, stride) for end in whole)
    padded = np.full((*x.shape[:2], rows[-1] + size, columns[-1] + size), -np.inf)
    h, w = (min(edge, end) for edge, end in zip(x.shape[2:], padded.shape[2:]))
    padded[:, :, :h, :w] = x[:, :, :h, :w]
    parts = [
        padded[:, :, i : i + rows[-1] + 1 : stride, j : j + columns[-1] + 1 : stride]
        for i in range(size)
        for j in range(size)
    ]
    return functools.reduce(np.maximum, parts)


def relative_error(got, wanted):
    return np.abs(got - wanted).max() / max(np.abs(wanted).max(), 1e-30)


def pixels(rng, shape):
    return rng.integers(0, 256, shape, dtype=np.uint8)


def weights(rng, m, c, k):
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
        elif isinstance(layer, Relu):
            x = np.maximum(x, 0)
        elif isinstance(layer, MaxPool):
            x = max_pool(x, layer.size, layer.stride, layer.full)
        elif isinstance(layer, Flatten):
            x = x.reshape(len(x), -1)
        elif isinstance(layer, Dense):
            x = x.reshape(len(x), -1) @ next(weights).astype(np.float64, copy=False).T
            x = x + next(weights) if layer.bias else x
        else:
            flat = x.reshape(len(x), -1)
            e = np.exp(flat - flat.max(axis=1, keepdims=True))
            x = (e / e.sum(axis=1, keepdims=True)).reshape(x.shape)
    return x


def own_kernels(backend):
    """Names of the library's own kernels, as its table's source has them: tests may have registered others."""
    path = {"cpu": "cpu/table.cpp", "gpu": "cuda/table.cu"}[backend]
    source = Path(__file__).resolve().parents[1] / "custom_ops" / "conv" / path
    table = re.search(r"kKernels\[\] = \{(.*?)\n\};", source.read_text(encoding="utf-8"), re.DOTALL).group(1)
    return re.findall(r'^ *\{"([^"]+)"', table, re.MULTILINE)
