"""The grid: every combination of channels, filters, kernel side, image side and batch; a sample of it, or all."""

import random
from itertools import product
from typing import List, NamedTuple, Sequence, Tuple, Union

from ...errors import UsageError
from ..layers import IMAGE_CHANNELS
from ..records import ConvolutionShape

CHANNELS = (1, 3, 4, 16, 32, 64, 128)
FILTERS = (4, 16, 32, 64, 128)
KERNEL_SIDES = (1, 3, 5, 7)
IMAGE_SIDES = (14, 28, 56, 112)
LARGEST = "largest"  # the batch whose input and output are below MOST_BYTES each
MOST_BYTES = 2 * 10**9
BATCHES = {"gpu": (1, 100, LARGEST), "cpu": (1, 100)}  # by default: on a CPU 2 GB take minutes
SAMPLE = 300

Batch = Union[int, str]


class Point(NamedTuple):
    """A shape of the grid. `number` is that of channels, filters and sides, from 1: the same for every batch."""

    number: int
    batch: Batch
    shape: ConvolutionShape

    @property
    def pixels(self) -> bool:
        """Whether its inputs are pixels, as a first layer's are."""
        return self.shape.C in IMAGE_CHANNELS

    @property
    def group(self) -> str:
        """The batch in words."""
        return group(self.batch)


def group(batch: Batch) -> str:
    """A batch in words: "1 image", "100 images", "largest batch"."""
    return "largest batch" if batch == LARGEST else f"{batch:,} image{'s' if batch != 1 else ''}"


def parse_batches(words: Sequence[str]) -> Tuple[Batch, ...]:
    """Batches out of words with commas between them; UsageError for one that is neither a number nor "largest"."""
    found: List[Batch] = []
    for word in (part.strip() for each in words for part in each.split(",")):
        if word != LARGEST and not (word.isdecimal() and int(word) > 0):
            raise UsageError(f"--batches takes whole numbers and '{LARGEST}' with commas between them, not '{word}'")
        found.append(word if word == LARGEST else int(word))
    return tuple(dict.fromkeys(found))


def every(batches: Sequence[Batch]) -> List[Point]:
    """All points, batch by batch."""
    return [
        Point(number, batch, _shape(batch, *sizes))
        for batch in batches
        for number, sizes in enumerate(product(CHANNELS, FILTERS, KERNEL_SIDES, IMAGE_SIDES), 1)
    ]


def chosen(batches: Sequence[Batch], full: bool, seed: int) -> List[Point]:
    """All points, or a sample, in an order that the seed decides: the first of them are a sample, too."""
    points = every(batches)
    random.Random(seed).shuffle(points)
    return points if full else points[:SAMPLE]


def _shape(batch: Batch, channels: int, filters: int, kernel_side: int, side: int) -> ConvolutionShape:
    one = ConvolutionShape(1, channels, side, side, filters, kernel_side)
    if batch == LARGEST:
        batch = MOST_BYTES // (4 * max(channels * side * side, one.outputs))
    return one._replace(B=int(batch))
