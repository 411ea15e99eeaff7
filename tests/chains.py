"""Networks for tests: random chains of layers and the course's networks, with random weights and data.

The module needs only NumPy, so that GPU machines without MXNet can use it. Only the strategies need Hypothesis.
"""

import json

import numpy as np
from fuzz import draw

from fashion_infer.checkpoints import editions
from fashion_infer.graph import rewrite, symbol
from fashion_infer.graph.layers import Convolution, Dense, Flatten, MaxPool, Relu, Tanh, walk
from fashion_infer.library.fused import FusedNetwork

COURSE = tuple(editions.EDITIONS)
_CACHE = 512 << 10  # bytes; equals kCopiesBytes of conv/cpu/direct_cut.h
_PIXEL = 150.0  # about the root mean square of random pixels


class Chain:
    """A chain of layers for items of `shape`, without the batch. Its convolutions are named convolution0, ..."""

    def __init__(self, layers, shape):
        self.layers, self.shape = tuple(layers), tuple(shape)

    def __repr__(self):
        return f"Chain({self.layers}, {self.shape})"

    def symbol(self, operator="builtin"):
        """Return the symbol's JSON, whose convolutions are those of the operator "builtin" or "custom"."""
        text = symbol.build(self.layers, self.shape, "builtin", softmax_label=False)
        return text if operator == "builtin" else json.dumps(rewrite.with_operator(json.loads(text), operator))

    def mxnet(self, mx, operator="builtin"):
        return mx.sym.load_json(self.symbol(operator))

    def weights(self, seed=0, pixels=False, gain=1.0):
        """Return random weights: float32 arrays by name, in the order of the layers.

        The sums of each layer have the order of magnitude `gain`, where tanh is neither linear nor saturated. With
        `pixels`, this holds for data from 0 to 255.
        """
        rng, magnitude, found = np.random.default_rng(seed), _PIXEL if pixels else 1.0, {}
        for step in walk(self.layers, self.shape, "convolution"):
            for name, shape in step.parameters.items():
                scale = 0.25 if len(shape) == 1 else gain / (magnitude * np.sqrt(np.prod(shape[1:])))
                found[name] = (rng.standard_normal(shape) * scale).astype(np.float32)
            if step.parameters or isinstance(step.layer, Tanh):
                magnitude = 1.0
        return found

    def items(self, n, kind="uint8", seed=1):
        """Return n random items (n, *shape) of the kind "uint8", "pixels" (0 to 255), "reals" (-1 to 1) or "normal"."""
        rng = np.random.default_rng([seed, 1])  # differs from the random numbers of the weights with this seed
        if kind == "reals":
            return rng.uniform(-1, 1, (n, *self.shape)).astype(np.float32)
        if kind == "normal":
            return rng.standard_normal((n, *self.shape)).astype(np.float32)
        return rng.integers(0, 256, (n, *self.shape)).astype(np.uint8 if kind == "uint8" else np.float32)

    def fused(self, weights, **options):
        return FusedNetwork(self.symbol(), weights, self.shape, **options)


def course(name, logits=False):
    """Return an edition's network as a chain, without its softmax if `logits` is true."""
    edition = editions.get(name)
    return Chain(edition.layers[:-1] if logits else edition.layers, edition.shape)


def with_equal_scores(n):
    """Return a chain, its weights and n items. Scores of an item are often equal, sometimes infinite or NaN."""
    rng = np.random.default_rng(n)
    data = rng.integers(-2, 3, (n, 4)).astype(np.float32)
    data[::7, 1], data[3::7, 2] = np.nan, np.inf
    weights = {"fullyconnected0_weight": rng.integers(-1, 2, (9, 4)).astype(np.float32)}
    return Chain([Dense(9, False)], (4,)), weights, data


def chains(budget=1 << 13):
    """Return a Hypothesis strategy that draws random chains; `budget` is that of `draw.layers`."""
    from hypothesis import strategies as st

    return st.integers(0, 2**32 - 1).map(lambda seed: Chain(*draw.layers(np.random.default_rng(seed), budget)))


def with_pools(rng):
    """Return a random chain with one or two convolutions of the kinds that net/cuda/kernels/conv_pool supports."""

    def activation():
        return [[], [Relu()], [Tanh()]][rng.integers(3)]

    which = rng.choice(["first", "later", "both"])
    channels = 1 if which != "later" else int(rng.integers(2, 5))
    shape = channels, int(rng.integers(34, 60)), 2 * int(rng.integers(17, 30))
    layers = []
    if which != "later":
        filters = int(rng.integers(1, 49)) if which == "first" else int(rng.integers(2, 5))
        layers += [Convolution(filters, int(rng.choice([5, 7]))), *activation(), MaxPool()]
    if which != "first":
        pool = MaxPool(4, 4, bool(rng.integers(2)))
        layers += [Convolution(int(rng.integers(1, 17)), 7), *activation(), pool]
    if rng.integers(4):
        layers += [Flatten(), Dense(int(rng.choice([10, 32, 70])))]
    return Chain(layers, shape)


def large():
    """Return a Hypothesis strategy that draws `chains` of sizes at which GPU kernels differ, and those `with_pools`."""
    from hypothesis import strategies as st

    pooled = st.integers(0, 2**32 - 1).map(lambda seed: with_pools(np.random.default_rng(seed)))
    return st.one_of(chains(1 << 16), pooled)


def many_channels():
    """Return a Hypothesis strategy of (C, H, W, M, K) of layers that `direct` computes in chunks of channels."""
    from hypothesis import strategies as st

    @st.composite
    def draw_shape(draw):
        k = draw(st.integers(3, 9))
        h, w = (k + draw(st.integers(4, 20)) for _ in range(2))
        rows, width = h - k + 1, w - k + 1
        channel = 4 * k * width * (min(rows, max(16, 4 * (k - 1))) + k - 1)
        c = _CACHE // channel + draw(st.integers(1, 3 * _CACHE // channel))
        return c, h, w, 25 * width // (k * (k - 1)) + draw(st.integers(1, 9)), k

    return draw_shape()
