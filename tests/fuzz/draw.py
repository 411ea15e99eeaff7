"""Draws random shapes, data and networks from the NumPy generator of a case's seed."""

import numpy as np

from fashion_infer.graph.layers import Convolution, ConvolutionShape, Dense, Flatten, MaxPool, Relu, Softmax, Tanh

# Kinds of data. In "wide", each value has its own magnitude from 1e-30 to 1e30, log-uniform. In "beside", some of the
# values are multiplied by one such magnitude. "special" has infinities and NaN among ordinary values.
KINDS = ("uint8", "pixels", "tanh", "relu", "normal", "wide", "beside", "subnormal", "special")
TAME = ("uint8", "pixels", "tanh", "relu", "normal")
WEIGHTS = ("normal", "normal", "tiny", "wide", "sparse", "unequal")
_DECADES = 30
_LARGEST = 256  # largest number of channels, and of filters
_MOST_IMAGES = 70
# Ranges of (channels, filters, kernel side) with specialised kernels. Without them, random shapes would rarely be in
# these ranges.
_FAMILIES = (
    ((1, 1), (1, 64), (5, 5)),
    ((2, 6), (9, 16), (5, 5)),
    ((2, 64), (1, 32), (1, 7)),
    ((2, 4), (33, 128), (5, 8)),
    ((64, 128), (1, 256), (1, 1)),
    ((1, 12), (1, 50), (3, 7)),
)


def columns(sizes):
    """Return the number of values in a convolution's unrolled input, from which the float64 reference is computed."""
    return sizes.operations // (2 * sizes.M)


def log_uniform(rng, low, high):
    """Draw an integer from low to high whose logarithm is uniformly distributed."""
    return min(high, int(np.exp(rng.uniform(np.log(low), np.log(high + 1)))))


def shape(rng, budget):
    """Draw a convolution whose unrolled input has at most `budget` values, and with at most 64 * budget products."""
    if rng.random() < 0.5:
        family = _FAMILIES[rng.integers(len(_FAMILIES))]
        channels, filters, side = (log_uniform(rng, *ends) for ends in family)
    else:
        channels, filters = log_uniform(rng, 1, _LARGEST), log_uniform(rng, 1, _LARGEST)
        side = int(rng.choice([1, 2, 3, 3, 4, 5, 5, 6, 7, 7, 8, 9, 10, 11]))
    rows, across = (side - 1 + _edge(rng) for _ in range(2))
    found = ConvolutionShape(log_uniform(rng, 1, _MOST_IMAGES), channels, rows, across, filters, side)
    while columns(found) > budget or columns(found) * found.M > 64 * budget:
        found = _smaller(rng, found)
    return found


def _edge(rng):
    """Draw a number of rows or columns of outputs: 1, up to 8, or up to 100."""
    way = rng.random()
    return 1 if way < 0.1 else int(rng.integers(1, 9)) if way < 0.35 else log_uniform(rng, 8, 100)


def _smaller(rng, found):
    name = str(rng.choice(["B", "C", "M", "H", "W"]))
    value, least = getattr(found, name), found.K if name in "HW" else 1
    return found._replace(**{name: least + (value - least) // 2})


def items(rng, size, kind):
    """Draw data of a kind: a uint8 array for the kind "uint8", else float32."""
    if kind in ("uint8", "pixels"):
        return rng.integers(0, 256, size, dtype=np.uint8).astype(np.uint8 if kind == "uint8" else np.float32)
    values = rng.standard_normal(size, dtype=np.float32)
    if kind == "tanh":
        return np.tanh(values)
    if kind == "relu":
        return np.maximum(values, 0)
    if kind == "wide":
        return np.copysign(10.0 ** rng.uniform(-_DECADES, _DECADES, size), values).astype(np.float32)
    if kind == "subnormal":
        return np.copysign(rng.integers(0, 2**23, size) * 2.0**-149, values).astype(np.float32)
    if kind == "beside":
        some = rng.random(size) < rng.choice([0.001, 0.02, 0.3])
        values[some] *= np.float32(10.0 ** rng.uniform(-_DECADES, _DECADES))
    if kind == "special":
        some = rng.random(size) < rng.choice([0.0005, 0.01])
        values[some] = rng.choice(np.float32([np.inf, -np.inf, np.nan]), np.count_nonzero(some))
    return values


def filters(rng, size, kind):
    """Draw weights (M, C, K, K) of a kind. They are so small that outputs of "wide" data stay in float32's range."""
    values = rng.standard_normal(size, dtype=np.float32)
    if kind == "tiny":
        values *= np.float32(1e-12)
    elif kind == "wide":
        values = np.copysign(10.0 ** rng.uniform(-2, 2, size), values).astype(np.float32)
    elif kind == "sparse":
        values[rng.random(size) < 0.7] = 0
    elif kind == "unequal":
        values *= (10.0 ** rng.uniform(-6, 2, (size[0], 1, 1, 1))).astype(np.float32)
    return values


def layers(rng, budget):
    """Draw layers and the shape of an item. No convolution's unrolled item has more than `budget` values."""
    flat = rng.random() < 0.2
    size = (int(rng.integers(1, 8)), *(log_uniform(rng, 1, 40) for _ in range(2)))
    size = (int(np.prod(size)),) if flat else size
    chain, channels, edges = [], size[0], list(size[1:])
    for _ in range(int(rng.integers(1, 8))):
        kinds = [Tanh, Relu, Dense, Flatten, *([] if flat else [Convolution, Convolution, MaxPool])]
        kind = kinds[rng.integers(len(kinds))]
        if kind is Convolution:
            side = int(rng.integers(1, min(11, *edges) + 1))
            outputs = (edges[0] - side + 1) * (edges[1] - side + 1)
            if channels * side**2 * outputs > budget:
                continue
            channels = log_uniform(rng, 1, 70)
            chain.append(Convolution(channels, side))
            edges = [edge - side + 1 for edge in edges]
        elif kind is MaxPool:
            window, stride = int(rng.integers(1, min(4, *edges) + 1)), rng.choice([None, 1, 2, 3, 4])
            step = stride or window
            chain.append(MaxPool(window, stride, bool(step <= window and rng.random() < 0.5)))
            edges = [chain[-1].output(edge) for edge in edges]
        elif kind is Dense:
            chain.append(Dense(int(rng.choice([1, 2, 7, 10, 16, 17, 31, 64, 129, 300])), bool(rng.random() < 0.7)))
            flat = True
        else:
            chain.append(kind())
            flat = flat or kind is Flatten
    if not any(isinstance(layer, (Convolution, Dense)) for layer in chain):
        chain.append(Dense(int(rng.integers(1, 150))))
        flat = True
    if flat and rng.random() < 0.4:
        chain.append(Softmax())
    return chain, size
