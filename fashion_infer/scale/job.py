"""Plans jobs. A job runs a network over blocks of images, and is identified by a digest.

A block's range of images depends only on the inputs and the block size.
"""

import bisect
import hashlib
import itertools
import json
from dataclasses import dataclass
from typing import Any, Dict, Iterable, Iterator, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ..errors import UsageError
from ..graph.rewrite import Normalisation
from ..inference.model import LoadedModel
from ..library.fused import FusedNetwork
from ..request import BlockRequest
from ..version import __version__
from . import places, sources
from .sources import Source

# Limits of a block with the default size.
MOST = 50_000  # number of images; at 10,000 images per second and core, a block that is lost costs 5 seconds
MOST_PICTURES = 5_000  # number of images if some are encoded pictures; decoding a picture takes a millisecond
MOST_BYTES = 64 << 20  # bytes of the pixels, both as read and in the network's input size
MOST_BLOCKS = 10**9  # largest number of blocks of a job, because the names of the blocks' files have nine digits
Held = Optional[Tuple[np.ndarray, np.ndarray]]  # images (n,1,s,s) and labels (n,)


@dataclass(frozen=True)
class Part:
    source: Source
    start: int
    count: int


@dataclass(frozen=True)
class ImageBlock:
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


class Spec(NamedTuple):
    symbol: str  # the network, as MXNet's JSON
    weights: Dict[str, np.ndarray]
    input_size: int  # width and height of the network's input in pixels
    normalisation: Optional[Normalisation]  # normalisation of the pixels before the network; None for none
    backend: str  # "cpu" or "gpu"
    device: int
    threads: Optional[int]  # None for the number of cores that the process may use
    scores: bool  # whether the results contain the scores
    invert: Optional[bool]  # whether pictures are inverted; None to decide for each picture
    held: Held  # images in memory and their labels; None if the images are elsewhere
    out: Optional[str]  # the folder of results, an absolute path or a URI; None to keep no results
    identity: str  # digest that identifies the job, stored in the folder's manifest and in each file
    version: str  # version of this package


class BlockJob(NamedTuple):
    model: LoadedModel
    blocks: Blocks
    spec: Spec
    facts: Dict[str, Any]  # facts that identify the job, written to the folder's manifest


def plan(
    request: BlockRequest, model: LoadedModel, of: Sequence[Source], invert: Optional[bool] = None, held: Held = None
) -> BlockJob:
    """Plan a job; UsageError for too many blocks, or for a network that cannot run as fused stages."""
    checkpoint, size = model.checkpoint, model.input_size
    try:
        FusedNetwork(model.network, checkpoint.weights, shape=(1, size, size))
    except UsageError as error:
        raise UsageError(f"--ray and --out need a fused network, and {model.label} cannot be fused: {error}") from None
    blocks = Blocks(of, request.block_size or default_size(of, size))
    if blocks.number > MOST_BLOCKS:
        raise UsageError(f"{blocks.number:,} blocks are too many (at most {MOST_BLOCKS:,}): use a larger --block-size")
    facts = {
        "format": 1,
        "model": model.label,
        "weights": _digest(checkpoint.symbol, checkpoint.weights),
        "input size": size,
        "images": blocks.images,
        "inputs": sources.digest(of),
        "block size": blocks.size,
        "scores": request.scores,
        "invert": invert,
    }
    spec = Spec(
        symbol=model.network,
        weights=checkpoint.weights,
        input_size=size,
        normalisation=model.normalisation,
        backend=request.backend,
        device=request.device,  # with Ray 0, the index among the GPUs that it lets a worker see
        threads=request.threads,
        scores=request.scores,
        invert=invert,
        held=held,
        out=None if request.out is None else places.absolute(str(request.out)),
        identity=hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest(),
        version=__version__,
    )
    return BlockJob(model, blocks, spec, facts)


def _digest(symbol: str, weights: Dict[str, np.ndarray]) -> str:
    summed = hashlib.sha256(symbol.encode())
    for name, array in sorted(weights.items()):
        summed.update(f"{name}{array.shape}".encode())
        summed.update(np.ascontiguousarray(array, "<f4").tobytes())
    return summed.hexdigest()


def default_size(sources: Iterable[Source], input_size: int) -> int:
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
