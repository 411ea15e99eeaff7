"""The course's editions as data: input size, layers, hidden units and class names.

Whatever differs between editions follows from this one table (../docs and the course's own pages give the figures).
"""

from typing import Dict, Iterator, NamedTuple, Tuple

from ..errors import UsageError
from ..graph.layers import Convolution, Dense, Flatten, Layer, MaxPool, Softmax, Tanh, walk

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


class Edition(NamedTuple):
    """One semester's network."""

    name: str
    input_size: int  # pixels a side
    layers: Tuple[Layer, ...]  # from the images to the scores
    class_names: Tuple[str, ...] = CLASS_NAMES

    @property
    def shape(self) -> Tuple[int, int, int]:
        """(C,H,W) of an image."""
        return 1, self.input_size, self.input_size


def _edition(name: str, input_size: int, features: Tuple[Layer, ...], hidden: int) -> Edition:
    """Every edition's network ends in a hidden layer with tanh and one score a class."""
    classifier = (Flatten(), Dense(hidden), Tanh(), Dense(len(CLASS_NAMES)), Softmax())
    return Edition(name, input_size, (*features, *classifier))


EDITIONS: Dict[str, Edition] = {
    edition.name: edition
    for edition in (
        _edition("fa2017", 28, (Convolution(50, 5), Tanh(), MaxPool()), 500),
        _edition("sp2018", 64, (Convolution(6, 5), Tanh(), MaxPool(), Convolution(16, 5)), 140),
        _edition("fa2019", 70, (Convolution(12, 5), Tanh(), MaxPool(), Convolution(24, 5)), 160),
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
    """Input channels, input size (pixels a side), filters and kernel size of each of an edition's convolutions."""
    for step in walk(edition.layers, edition.shape):
        if isinstance(step.layer, Convolution):
            yield step.input[0], step.input[1], step.layer.filters, step.layer.kernel_size
