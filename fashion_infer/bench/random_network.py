"""Makes an edition's network with random weights, and random images for it; both are the same on every machine.

Every layer's outputs have magnitudes around 1: tanh is neither linear nor saturated, and any error changes the scores.
"""

from typing import Dict, NamedTuple, Tuple

import numpy as np

from ..checkpoints import editions
from ..graph import layers as vocabulary
from ..graph import symbol
from ..graph.layers import Convolution, Dense, Layer, MaxPool, Relu, Tanh, walk

_PIXEL = 140.0  # root mean square of the images' pixels
_PATCHES = 5  # number of patches in each row and in each column of an image
_TANH = 0.7  # magnitude after tanh and the pool, for values of order 1
_RELU = 0.5  # magnitude after ReLU and the pool, for values of order 1
_LOGIT = 3.0  # magnitude of the last dense layer's outputs; it is larger than 1, so that scores differ


class RandomNetwork(NamedTuple):
    """An edition's network, or its first layers, with random weights."""

    edition: str
    shape: Tuple[int, int, int]  # (C,H,W) of an image
    layers: Tuple[Layer, ...]
    symbol: str  # the layers as MXNet's JSON, with the operator `New` for convolutions
    weights: Dict[str, np.ndarray]  # float32 arrays by their names in `walk`

    def images(self, count: int) -> np.ndarray:
        """Make uint8 images (count,C,H,W) of coarse patches with noise; noise alone would give nearly equal scores."""
        rng = np.random.default_rng(1)
        channels, height, _ = self.shape
        cell = np.arange(height) * _PATCHES // height
        patches = rng.integers(0, 192, (count, channels, _PATCHES, _PATCHES), dtype=np.uint8)
        noise = rng.integers(0, 64, (count, *self.shape), dtype=np.uint8)
        noise += patches[:, :, cell[:, None], cell]
        return noise

    def first(self, count: int) -> "RandomNetwork":
        layers = self.layers[:count]
        return self._replace(symbol=symbol.build(layers, self.shape), layers=layers)

    def first_stage(self) -> "RandomNetwork":
        return self.first([isinstance(layer, MaxPool) for layer in self.layers].index(True) + 1)

    def logits(self) -> "RandomNetwork":
        return self.first(len(self.layers) - 1)


def build(name: str) -> RandomNetwork:
    edition = editions.get(name)
    layers, shape = edition.layers, edition.shape
    weights = _weights(layers, shape, edition.input_size)
    return RandomNetwork(name, shape, layers, symbol.build(layers, shape), weights)


def _weights(layers, shape, seed) -> Dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    weights: Dict[str, np.ndarray] = {}

    def draw(name, shape, scale):
        weights[name] = (scale * rng.standard_normal(shape)).astype(np.float32)

    steps = list(walk(layers, shape))
    last = max(index for index, step in enumerate(steps) if isinstance(step.layer, Dense))
    magnitude = _PIXEL  # root mean square of the layer's inputs
    for index, step in enumerate(steps):
        if isinstance(step.layer, Convolution):
            ((name, of),) = step.parameters.items()
            draw(name, of, 1 / (magnitude * np.sqrt(np.prod(of[1:]))))
            magnitude = 1.0
        elif isinstance(step.layer, Dense):
            (name, of), *bias = step.parameters.items()
            draw(name, of, (_LOGIT if index == last else 1) / magnitude / np.sqrt(of[1]))
            for name, of in bias:
                draw(name, of, 0.2)
            magnitude = 1.0
        elif isinstance(step.layer, Tanh):
            magnitude = _TANH
        elif isinstance(step.layer, Relu):
            magnitude = _RELU
    return weights


def convolutions(edition: editions.Edition) -> Tuple[vocabulary.Step, ...]:
    steps = walk(edition.layers, edition.shape)
    return tuple(step for step in steps if isinstance(step.layer, Convolution))
