"""The course's editions as data: input size, layers, hidden units and class names.

Whatever differs between editions follows from this one table (../docs and the course's own pages give the figures).
"""

from typing import Dict, Iterator, NamedTuple, Tuple

from ..errors import UsageError

CLASS_NAMES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)


class Convolution(NamedTuple):
    """A valid, stride-1 convolution without bias: `filters` square kernels of side `kernel`."""

    kernel: int
    filters: int


class Tanh(NamedTuple):
    """Element-wise hyperbolic tangent."""


class MaxPool(NamedTuple):
    """Max pooling, square window `size`, stride equal to it."""

    size: int = 2


class Edition(NamedTuple):
    """One semester's network: features, then a hidden layer with tanh, then one score a class."""

    name: str
    input_size: int  # pixels a side
    features: Tuple[NamedTuple, ...]
    hidden: int
    class_names: Tuple[str, ...] = CLASS_NAMES


EDITIONS: Dict[str, Edition] = {
    edition.name: edition
    for edition in (
        Edition("fa2017", 28, (Convolution(5, 50), Tanh(), MaxPool()), 500),
        Edition("sp2018", 64, (Convolution(5, 6), Tanh(), MaxPool(), Convolution(5, 16)), 140),
        Edition("fa2019", 70, (Convolution(5, 12), Tanh(), MaxPool(), Convolution(5, 24)), 160),
    )
}


def get(name: str) -> Edition:
    """The edition called `name`.

    Raises
    ------
    UsageError
        When there is none of that name.
    """
    try:
        return EDITIONS[name]
    except KeyError:
        raise UsageError(f"unknown edition '{name}'; known: {', '.join(EDITIONS)}") from None


def convolution_shapes(edition: Edition) -> Iterator[Tuple[int, int, int, int]]:
    """Input channels, input side (pixels), filters and kernel side of each of an edition's convolutions, in order."""
    channels, side = 1, edition.input_size
    for layer in edition.features:
        if isinstance(layer, Convolution):
            yield channels, side, layer.filters, layer.kernel
            channels, side = layer.filters, side - layer.kernel + 1
        elif isinstance(layer, MaxPool):
            side //= layer.size
