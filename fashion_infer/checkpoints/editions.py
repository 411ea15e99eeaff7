"""The table of the course's editions: the name, input size, layers and class names of each edition's network."""

from typing import Dict, Iterator, NamedTuple, Tuple

from ..errors import UsageError
from ..graph.layers import Convolution, Dense, Flatten, Layer, MaxPool, Relu, Softmax, Tanh, walk

CLASS_NAMES = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")
_TANH, _RELU, _POOL = Tanh(), Relu(), MaxPool()
_LAST_POOL = MaxPool(4, full=True)  # of fa2020: reduces 34 pixels per side to 9; the last window covers only 2


class Edition(NamedTuple):
    name: str
    input_size: int  # pixels per side
    layers: Tuple[Layer, ...]  # from the images to the scores
    class_names: Tuple[str, ...] = CLASS_NAMES

    @property
    def shape(self) -> Tuple[int, int, int]:
        return 1, self.input_size, self.input_size


def _edition(name: str, input_size: int, features: Tuple[Layer, ...], hidden: int, nonlinear: Layer = _TANH) -> Edition:
    classifier = (Flatten(), Dense(hidden), nonlinear, Dense(len(CLASS_NAMES)), Softmax())
    return Edition(name, input_size, (*features, *classifier))


EDITIONS: Dict[str, Edition] = {
    edition.name: edition
    for edition in (
        _edition("fa2017", 28, (Convolution(50, 5), _TANH, _POOL), 500),
        _edition("sp2018", 64, (Convolution(6, 5), _TANH, _POOL, Convolution(16, 5)), 140),
        _edition("fa2018", 72, (Convolution(12, 7), _TANH, _POOL, Convolution(24, 7)), 160),
        _edition("sp2019", 48, (Convolution(6, 5), _TANH, _POOL, Convolution(16, 5)), 140),
        _edition("fa2019", 70, (Convolution(12, 5), _TANH, _POOL, Convolution(24, 5)), 160),
        _edition("fa2020", 86, (Convolution(4, 7), _RELU, _POOL, Convolution(16, 7), _RELU, _LAST_POOL), 32, _RELU),
    )
}

# The semesters from sp2021 to fa2025 used fa2020's network, so that their names are aliases of fa2020.
ALIASES: Dict[str, str] = {f"{term}{year}": "fa2020" for year in range(2021, 2026) for term in ("sp", "fa")}


def get(name: str) -> Edition:
    try:
        return EDITIONS[ALIASES.get(name, name)]
    except KeyError:
        known = f"{', '.join(EDITIONS)} and, the same as fa2020, sp2021 to fa2025"
        raise UsageError(f"unknown edition '{name}'; known: {known}") from None


def convolution_shapes(edition: Edition) -> Iterator[Tuple[int, int, int, int]]:
    """Yield (input channels, input pixels per side, filters, kernel size) of each convolution of an edition."""
    for step in walk(edition.layers, edition.shape):
        if isinstance(step.layer, Convolution):
            yield step.input[0], step.input[1], step.layer.filters, step.layer.kernel_size
