"""Plans jobs. A job runs a network over blocks of images, and is identified by a digest."""

import hashlib
import json
from typing import Any, Dict, NamedTuple, Optional, Sequence

import numpy as np

from ..errors import UsageError
from ..graph.rewrite import Normalisation
from ..inference.model import LoadedModel
from ..library.fused import FusedNetwork
from ..request import BlockRequest
from ..version import __version__
from . import places, sources
from .blocks import MOST_BLOCKS, Blocks, default_size
from .reading import Held
from .sources import Source


class Spec(NamedTuple):
    """All information about a job that a worker needs, in any process."""

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
    """Plan a job, and check on this machine's CPU that the network can run as fused stages.

    The request's backend must be "cpu" or "gpu". If `invert` is None, it is decided for each picture. Raise UsageError
    for too many blocks, or a network with a node that cannot be fused.
    """
    checkpoint, size = model.checkpoint, model.input_size
    try:
        FusedNetwork(model.network, checkpoint.weights, shape=(1, size, size))
    except UsageError as error:
        raise UsageError(
            f"--ray and --out need a network that can be fused, and {model.label} cannot: {error}"
        ) from None
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
        device=request.device
        if isinstance(request.device, int)
        else 0,  # index among the GPUs that Ray lets a worker see
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
    """Return the digest of a network and its weights."""
    summed = hashlib.sha256(symbol.encode())
    for name, array in sorted(weights.items()):
        summed.update(f"{name}{array.shape}".encode())
        summed.update(np.ascontiguousarray(array, "<f4").tobytes())
    return summed.hexdigest()
