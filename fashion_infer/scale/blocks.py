"""Divides the images of a job into blocks. A block's range depends only on the inputs and the block size."""

import bisect
import itertools
from dataclasses import dataclass
from typing import Iterable, Iterator, Sequence, Tuple

from .sources import Source

# Limits of a block with the default size.
MOST = 50_000  # number of images; at 10,000 images per second and core, a block that is lost costs 5 seconds
MOST_PICTURES = 5_000  # number of images if some are encoded pictures; decoding a picture takes a millisecond
MOST_BYTES = 64 << 20  # bytes of the pixels, both as read and in the network's input size
MOST_BLOCKS = 10**9  # largest number of blocks of a job, because the names of the blocks' files have nine digits


@dataclass(frozen=True)
class Part:
    """A range of a source's images."""

    source: Source
    start: int
    count: int


@dataclass(frozen=True)
class ImageBlock:
    """A range of a job's images."""

    index: int
    first: int  # index of the block's first image in the job
    parts: Tuple[Part, ...]

    @property
    def count(self) -> int:
        return sum(part.count for part in self.parts)


class Blocks:
    """The blocks of a job, `size` images each (the last may have fewer), created on demand."""

    def __init__(self, sources: Sequence[Source], size: int):
        self.sources, self.size = sources, size
        self._ends = list(itertools.accumulate(source.count for source in sources))

    @property
    def images(self) -> int:
        return self._ends[-1] if self._ends else 0

    @property
    def number(self) -> int:
        """Number of blocks. Unlike `len`, it has no upper limit."""
        return -(-self.images // self.size)

    def __len__(self) -> int:
        return self.number

    def count(self, index: int) -> int:
        return min(self.size, self.images - index * self.size)

    def block(self, index: int) -> ImageBlock:
        first = index * self.size
        left, parts = self.count(index), []
        place = bisect.bisect_right(self._ends, first)
        start = first - (self._ends[place] - self.sources[place].count)
        while left:
            source = self.sources[place]
            taken = min(left, source.count - start)
            if taken:
                parts.append(Part(source, start, taken))
            left, place, start = left - taken, place + 1, 0
        return ImageBlock(index, first, tuple(parts))


def default_size(sources: Iterable[Source], input_size: int) -> int:
    """Return the default number of images per block: `MOST`, or fewer if images are large or must be decoded."""
    largest, most = input_size**2, MOST
    for source in sources:
        largest = max(largest, source.bytes)
        most = min(most, MOST_PICTURES) if source.kind == "picture" else most
    return max(1, min(most, MOST_BYTES // largest))


def chunks(indices: Iterable[int], size: int) -> Iterator[Sequence[int]]:
    """Yield lists of `size` indices; the last list may be shorter. The indices are never all in memory."""
    waiting = iter(indices)
    while True:
        chunk = list(itertools.islice(waiting, size))
        if not chunk:
            return
        yield chunk
