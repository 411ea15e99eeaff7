"""A network of an edition with random weights, and random images for it: the same on every machine.

The weights are of realistic size: pixels go up to 255, and yet every layer's outputs are of order 1, where tanh is
neither linear nor saturated and an error in any layer reaches the scores.
"""

import json
from typing import Dict, List, NamedTuple, Optional, Tuple

import numpy as np

from ..checkpoints import editions
from ..graph import network

_PIXEL = 140.0  # root mean square of the images' pixels
_PATCHES = 5  # a side
_TANH = 0.7  # of what tanh and the pool make of values of order 1
_LOGIT = 3.0  # how much larger the last layer's outputs are, so that scores differ


class Step(NamedTuple):
    """One layer. Peers and the reference walk these; the library reads the symbol."""

    kind: str  # "convolution", "tanh", "pool", "flatten", "dense" or "softmax"
    weight: Optional[np.ndarray] = None  # convolution (M,C,K,K), dense (units, values), float32
    bias: Optional[np.ndarray] = None  # dense: (units), float32
    size: int = 0  # pool: side of the window, and the stride


class RandomNetwork(NamedTuple):
    """A network that is ready to run."""

    edition: str
    shape: Tuple[int, int, int]  # (C,H,W) of an image
    symbol: str  # as JSON, its convolutions being `New`
    weights: Dict[str, np.ndarray]  # by the symbol's names
    steps: List[Step]

    def images(self, count: int) -> np.ndarray:
        """(count,C,H,W) uint8: coarse patches under noise, for noise alone looks all alike to a network."""
        rng = np.random.default_rng(1)
        channels, side, _ = self.shape
        cell = np.arange(side) * _PATCHES // side
        patches = rng.integers(0, 192, (count, channels, _PATCHES, _PATCHES), dtype=np.uint8)
        noise = rng.integers(0, 64, (count, *self.shape), dtype=np.uint8)
        noise += patches[:, :, cell[:, None], cell]
        return noise

    def first_stage(self) -> "RandomNetwork":
        """The layers up to and with the first pool."""
        return self._first([step.kind for step in self.steps].index("pool") + 1)

    def logits(self) -> "RandomNetwork":
        """All layers but the softmax."""
        return self._first(len(self.steps) - 1)

    def _first(self, count):
        """The first layers: each step is one node that is no variable, in the same order."""
        graph = json.loads(self.symbol)
        end = [index for index, node in enumerate(graph["nodes"]) if node["op"] != "null"][count - 1]
        graph["nodes"] = graph["nodes"][: end + 1]
        graph["arg_nodes"] = [index for index in graph["arg_nodes"] if index < end]
        graph["heads"] = [[end, 0, 0]]
        graph.pop("node_row_ptr", None)
        return self._replace(symbol=json.dumps(graph), steps=self.steps[:count])


def make(name: str) -> RandomNetwork:
    """The network of an edition; UsageError for an unknown one, DeviceError without MXNet, which builds the symbol."""
    edition = editions.get(name)
    rng = np.random.default_rng(edition.input_size)
    weights: Dict[str, np.ndarray] = {}
    steps: List[Step] = []

    def drawn(key, shape, scale):
        weights[key] = (scale * rng.standard_normal(shape)).astype(np.float32)
        return weights[key]

    def dense(number, units, inputs, scale):
        weight = drawn(f"fullyconnected{number}_weight", (units, inputs), scale / np.sqrt(inputs))
        steps.append(Step("dense", weight, drawn(f"fullyconnected{number}_bias", (units,), 0.2)))

    channels, side, magnitude, convolutions = 1, edition.input_size, _PIXEL, 0
    for layer in edition.features:
        if isinstance(layer, editions.Convolution):
            shape = (layer.filters, channels, layer.kernel, layer.kernel)
            scale = 1 / (magnitude * np.sqrt(np.prod(shape[1:])))
            steps.append(Step("convolution", drawn(f"new{convolutions}_weight", shape, scale)))
            channels, side, magnitude, convolutions = layer.filters, side - layer.kernel + 1, 1.0, convolutions + 1
        elif isinstance(layer, editions.Tanh):
            steps.append(Step("tanh"))
            magnitude = _TANH
        else:
            steps.append(Step("pool", size=layer.size))
            side //= layer.size
    steps.append(Step("flatten"))
    dense(0, edition.hidden, channels * side * side, 1 / magnitude)
    steps.append(Step("tanh"))
    dense(1, len(edition.class_names), edition.hidden, _LOGIT / _TANH)
    steps.append(Step("softmax"))
    shape = (1, edition.input_size, edition.input_size)
    return RandomNetwork(name, shape, network.build(name), weights, steps)


def shapes(steps: List[Step], shape: Tuple[int, ...]) -> List[Tuple[int, ...]]:
    """Each step's output of one item of this shape."""
    found = []
    for step in steps:
        if step.kind == "convolution":
            shrink = step.weight.shape[2] - 1
            shape = (len(step.weight), shape[1] - shrink, shape[2] - shrink)
        elif step.kind == "pool":
            shape = (shape[0], shape[1] // step.size, shape[2] // step.size)
        elif step.kind == "flatten":
            shape = (int(np.prod(shape)),)
        elif step.kind == "dense":
            shape = (len(step.weight),)
        found.append(shape)
    return found
