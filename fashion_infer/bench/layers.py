"""The convolutions that `bench conv` measures: from the course's editions, and a table from other networks."""

from typing import Dict, List, NamedTuple, Tuple

from ..checkpoints import editions
from .random_network import convolutions
from .records import ConvolutionShape

OTHERS = "other networks"
IMAGE_CHANNELS = (1, 3)  # of a network's first layer, whose inputs are pixels, 0 to 255; later layers' are -1 to 1
SETS = ("course", "others", "all")
# C, side of the image, M, K and images on a GPU. Typical layers of networks other than the course's: first layers,
# middle layers of 3x3 and 5x5, and 1x1.
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
_IMAGES = 10_000  # of an edition's layers, on a GPU
_FEWER: Dict[str, int] = {"fa2018": 1_000}  # its outputs are the largest
_ON_A_CPU = 10  # divisor: a CPU gets a tenth of the images


class BenchLayer(NamedTuple):
    """A convolution to measure. `images` is its batch in a set of layers, on a GPU."""

    edition: str
    number: int  # from 1, among the convolutions of the edition or of the other networks
    C: int
    H: int
    W: int
    M: int
    K: int
    images: int

    def shape(self, batch: int) -> ConvolutionShape:
        """The layer's shape for a batch of images."""
        return ConvolutionShape(batch, self.C, self.H, self.W, self.M, self.K)

    def batch(self, backend: str) -> int:
        """The layer's batch in a set, on a backend."""
        return self.images if backend == "gpu" else self.images // _ON_A_CPU


def of_editions(names: Tuple[str, ...]) -> List[BenchLayer]:
    """The convolutions of editions, in the order of their networks; UsageError for an unknown edition."""
    found = []
    for edition in map(editions.get, names):
        images = _FEWER.get(edition.name, _IMAGES)
        for number, step in enumerate(convolutions(edition), 1):
            filters, *_, side = next(iter(step.parameters.values()))
            found.append(BenchLayer(edition.name, number, *step.input, filters, side, images))  # type: ignore[call-arg]  # mypy gives a starred sequence any length
    return found


def of_set(name: str) -> List[BenchLayer]:
    """A set of layers: "course" (every edition), "others" (other networks) or "all"."""
    course = of_editions(tuple(editions.EDITIONS)) if name != "others" else []
    others = [
        BenchLayer(OTHERS, number, channels, side, side, filters, size, images)
        for number, (channels, side, filters, size, images) in enumerate(_OTHERS, 1)
    ]
    return course + (others if name != "course" else [])
