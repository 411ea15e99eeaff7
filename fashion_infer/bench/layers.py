"""The convolutions that `bench conv` measures: from the course's editions, and a table from other networks."""

from typing import Dict, List, NamedTuple, Tuple

from ..checkpoints import editions
from .random_network import convolutions
from .records import ConvolutionShape

OTHERS = "other networks"
# Values of C for which a layer counts as a network's first. Its inputs are pixels from 0 to 255; the inputs of other
# layers are from -1 to 1.
IMAGE_CHANNELS = (1, 3)
# Typical layers of networks other than the course's, as (C, side of the image, M, K, batch size on a GPU): first
# layers, 3x3 and 5x5 layers from the middle of a network, and 1x1 layers.
_OTHERS = (
    (1, 48, 12, 5, 10_000),
    (32, 28, 64, 3, 10_000),
    (3, 112, 64, 7, 1_000),
    (64, 28, 64, 3, 1_000),
    (64, 14, 128, 3, 1_000),
    (32, 28, 64, 5, 1_000),
    (128, 28, 128, 1, 1_000),
    (16, 56, 64, 1, 1_000),
)
_IMAGES = 10_000  # number of images for an edition's layers on a GPU
_FEWER: Dict[str, int] = {"fa2018": 1_000}  # smaller numbers for editions whose outputs are very large
_CPU_DIVISOR = 10  # on a CPU, batch sizes are divided by this number


class BenchLayer(NamedTuple):
    edition: str
    number: int  # position among the convolutions of the edition or of the other networks, from 1
    shape: ConvolutionShape  # with the number of images on a GPU when the layer is measured in a set of layers

    def batch(self, backend: str) -> int:
        return self.shape.B if backend == "gpu" else self.shape.B // _CPU_DIVISOR


def of_editions(names: Tuple[str, ...]) -> List[BenchLayer]:
    """Return the convolutions of editions, in network order; UsageError for an unknown edition."""
    found = []
    for edition in map(editions.get, names):
        images = _FEWER.get(edition.name, _IMAGES)
        for number, step in enumerate(convolutions(edition), 1):
            filters, *_, side = next(iter(step.parameters.values()))
            channels, height, width = step.input
            shape = ConvolutionShape(images, channels, height, width, filters, side)
            found.append(BenchLayer(edition.name, number, shape))
    return found


def of_set(name: str) -> List[BenchLayer]:
    course = of_editions(tuple(editions.EDITIONS)) if name != "others" else []
    others = [
        BenchLayer(OTHERS, number, ConvolutionShape(images, channels, side, side, filters, size))
        for number, (channels, side, filters, size, images) in enumerate(_OTHERS, 1)
    ]
    return course + (others if name != "course" else [])
