"""Types of layers, a walk over a chain of them, and the sizes of a convolution on a batch."""

import math
from typing import Dict, Iterator, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from ..errors import UsageError

Shape = Tuple[int, ...]


class Convolution(NamedTuple):
    """Valid, stride-1 convolution without bias: `filters` square kernels of side `kernel_size` pixels."""

    filters: int
    kernel_size: int


class Tanh(NamedTuple):
    """Element-wise hyperbolic tangent."""


class Relu(NamedTuple):
    """Element-wise max(x, 0); NaN stays NaN."""


class MaxPool(NamedTuple):
    """Max pooling with square windows; a partial window at the right or lower border is dropped unless `full`."""

    size: int = 2
    stride: Optional[int] = None
    full: bool = False

    @property
    def step(self) -> int:
        return self.stride or self.size

    def output(self, size: int) -> int:
        rest = size - self.size
        return (-(-rest // self.step) if self.full else rest // self.step) + 1

    def fits(self, size: int) -> bool:
        """Return whether there is a window along an edge of `size` pixels, and each covers at least one pixel."""
        return self.size <= size and (self.output(size) - 1) * self.step < size


class Flatten(NamedTuple):
    """Reshape (C,H,W) to (C*H*W,)."""


class Dense(NamedTuple):
    """Fully connected: `units` weighted sums over all values of an item, and a bias unless `bias` is False."""

    units: int
    bias: bool = True


class Softmax(NamedTuple):
    """Scores from logits: positive, with sum 1."""


Layer = Union[Convolution, Tanh, Relu, MaxPool, Flatten, Dense, Softmax]


class Step(NamedTuple):
    """A layer with its name and shapes. Shapes are for one item: (C,H,W), or (values,) after flattening."""

    layer: Layer
    name: str  # of the node in a symbol
    input: Shape
    output: Shape
    parameters: Dict[str, Shape]  # by their names in a checkpoint, in the order of the operator's inputs


def walk(layers: Sequence[Layer], shape: Shape, convolution: str = "new") -> Iterator[Step]:
    """Yield the layers of a network, named as in the course; UsageError if a layer does not fit items of `shape`."""
    counts: Dict[str, int] = {}

    def numbered(base: str) -> str:
        counts[base] = counts.get(base, -1) + 1
        return f"{base}{counts[base]}"

    for layer in layers:
        before = shape
        parameters: Dict[str, Tuple[int, ...]] = {}
        if isinstance(layer, Convolution):
            if len(shape) != 3 or layer.kernel_size > min(shape[1:]):
                raise UsageError(f"{layer} does not fit data of shape {shape}")
            name, k = numbered(convolution), layer.kernel_size
            parameters[f"{name}_weight"] = (layer.filters, shape[0], k, k)
            shape = (layer.filters, shape[1] - k + 1, shape[2] - k + 1)
        elif isinstance(layer, MaxPool):
            if len(shape) != 3 or not all(layer.fits(size) for size in shape[1:]):
                raise UsageError(f"{layer} does not fit data of shape {shape}")
            name, shape = numbered("pooling"), (shape[0], layer.output(shape[1]), layer.output(shape[2]))
        elif isinstance(layer, Dense):
            name = numbered("fullyconnected")
            parameters[f"{name}_weight"] = (layer.units, int(np.prod(shape)))
            if layer.bias:
                parameters[f"{name}_bias"] = (layer.units,)
            shape = (layer.units,)
        elif isinstance(layer, Flatten):
            name, shape = numbered("flatten"), (int(np.prod(shape)),)
        elif isinstance(layer, (Tanh, Relu)):
            name = numbered("activation")
        else:
            name = "softmax"
        yield Step(layer, name, before, shape, parameters)


class ConvolutionShape(NamedTuple):
    """A valid, stride-1 convolution of (B,C,H,W) with (M,C,K,K), all float32."""

    B: int
    C: int
    H: int
    W: int
    M: int
    K: int

    @property
    def title(self) -> str:
        images = f"{self.B:,} image{'s' if self.B > 1 else ''}"
        return f"{self.C} to {self.M} channels, {self.K}x{self.K}, on {self.H}x{self.W}, {images}"

    @property
    def data(self) -> Tuple[int, int, int, int]:
        return self.B, self.C, self.H, self.W

    @property
    def weights(self) -> Tuple[int, int, int, int]:
        return self.M, self.C, self.K, self.K

    @property
    def output(self) -> Tuple[int, int, int, int]:
        return self.B, self.M, self.H - self.K + 1, self.W - self.K + 1

    @property
    def outputs(self) -> int:
        return math.prod(self.output)

    @property
    def operations(self) -> int:
        """Floating-point operations: two for each multiply-add."""
        return 2 * self.outputs * self.C * self.K**2

    @property
    def bytes(self) -> int:
        """Bytes of input, weights and output, each moved once."""
        return 4 * (self.B * self.C * self.H * self.W + self.M * self.C * self.K**2 + self.outputs)

    @property
    def intensity(self) -> float:
        """Arithmetic intensity: operations per byte."""
        return self.operations / self.bytes
