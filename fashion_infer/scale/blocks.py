"""All images of a job as one row of blocks, each a range that depends on nothing but the inputs and the block size."""

import bisect
import itertools
from dataclasses import dataclass
from typing import Iterable, Iterator, Sequence, Tuple

from .sources import Source

MOST = 50_000  # images a block: at 10,000 a second and core a lost one costs five seconds
MOST_PICTURES = 5_000  # encoded pictures per block, which take a millisecond each to decode
MOST_BLOCKS = 10**9  # a file's name has nine digits
MOST_BYTES = 64 << 20  # bytes of a block's pixels, as read and as the network takes them


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
    first: int  # the job's index of its first image
    parts: Tuple[Part, ...]

    @property
    def count(self) -> int:
        """Its images."""
        return sum(part.count for part in self.parts)


class Blocks:
    """The blocks of a job, each made when it is asked for.

    Parameters
    ----------
    sources
        In the order of the images.
    size
        Images a block; the last one may have fewer.
    """

    def __init__(self, sources: Sequence[Source], size: int):
        self.sources, self.size = sources, size
        self._ends = list(itertools.accumulate(source.count for source in sources))

    @property
    def images(self) -> int:
        """All of them."""
        return self._ends[-1] if self._ends else 0

    @property
    def number(self) -> int:
        """How many blocks there are: also where `len` would not say it."""
        return -(-self.images // self.size)

    def __len__(self) -> int:
        return self.number

    def count(self, index: int) -> int:
        """Images of a block."""
        return min(self.size, self.images - index * self.size)

    def block(self, index: int) -> ImageBlock:
        """The block of that index."""
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
    """Images a block: at most `MOST`, fewer where they are large or must be decoded; at least one."""
    largest, most = input_size**2, MOST
    for source in sources:
        largest = max(largest, source.bytes)
        most = min(most, MOST_PICTURES) if source.kind == "picture" else most
    return max(1, min(most, MOST_BYTES // largest))


def chunks(indices: Iterable[int], size: int) -> Iterator[Sequence[int]]:
    """Indices in lists of that many, without ever holding all of them."""
    waiting = iter(indices)
    while True:
        chunk = list(itertools.islice(waiting, size))
        if not chunk:
            return
        yield chunk
