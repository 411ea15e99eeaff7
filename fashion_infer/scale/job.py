"""What is to be done: a network over images, in blocks; and what tells one job from another."""

import hashlib
import json
from typing import Any, Dict, NamedTuple, Optional, Sequence

import numpy as np

from .. import __version__
from ..errors import UsageError
from ..inference.model import LoadedModel
from ..library.fused import FusedNetwork
from ..request import Request
from . import sources
from .blocks import MOST_BLOCKS, Blocks, default_size
from .reading import Held
from .sources import Source


class Spec(NamedTuple):
    """All that a worker must know, in whatever process it is."""

    symbol: str
    weights: Dict[str, np.ndarray]
    input_size: int
    backend: str  # "cpu" or "gpu"
    device: int
    threads: Optional[int]  # None for the cores that the process may use
    scores: bool  # whether the results have them
    invert: Optional[bool]
    held: Held
    out: Optional[str]  # the folder of results, absolute or a URI; None to keep none
    identity: str  # of the job: what every result and the folder carry
    version: str  # of this package


class Job(NamedTuple):
    """A job, planned."""

    model: LoadedModel
    blocks: Blocks
    spec: Spec
    facts: Dict[str, Any]  # what tells it from others: the folder's manifest


def plan(
    request: Request,
    model: LoadedModel,
    of: Sequence[Source],
    out: Optional[str] = None,
    scores: bool = False,
    block_size: Optional[int] = None,
    invert: Optional[bool] = None,
    held: Held = None,
) -> Job:
    """Plan a job and check, on this machine's CPU, that its network runs as fused stages.

    Parameters
    ----------
    request, model
        The options, whose backend is "cpu" or "gpu" by now, and the model they name.
    of
        The images, in their order.
    out, scores, block_size
        Where results go, whether with scores, and images a block; None for what `default_size` says.
    invert, held
        Of pictures; images in memory.

    Raises
    ------
    UsageError
        For a block size below 1, too many blocks, or a network that has a node which cannot be fused.
    """
    if block_size is not None and block_size < 1:
        raise UsageError(f"block size must be at least 1, not {block_size}")
    checkpoint, size = model.checkpoint, model.input_size
    try:
        FusedNetwork(checkpoint.symbol, checkpoint.weights, shape=(1, size, size))
    except UsageError as error:
        raise UsageError(f"many images at once take fused networks alone, and {model.label} is none: {error}") from None
    blocks = Blocks(of, block_size or default_size(of, size))
    if blocks.number > MOST_BLOCKS:
        raise UsageError(
            f"{blocks.number:,} blocks are too many: at most {MOST_BLOCKS:,}, so use a larger --block-size"
        )
    facts = {
        "format": 1,
        "model": model.label,
        "weights": _digest(checkpoint.symbol, checkpoint.weights),
        "input size": size,
        "images": blocks.images,
        "inputs": sources.digest(of),
        "block size": blocks.size,
        "scores": scores,
        "invert": invert,
    }
    spec = Spec(
        symbol=checkpoint.symbol,
        weights=checkpoint.weights,
        input_size=size,
        backend=request.backend,
        device=request.device if isinstance(request.device, int) else 0,  # of those that Ray lets a worker see
        threads=request.threads,
        scores=scores,
        invert=invert,
        held=held,
        out=out,
        identity=hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest(),
        version=__version__,
    )
    return Job(model, blocks, spec, facts)


def _digest(symbol: str, weights: Dict[str, np.ndarray]) -> str:
    """Of a network and its weights."""
    summed = hashlib.sha256(symbol.encode())
    for name, array in sorted(weights.items()):
        summed.update(f"{name}{array.shape}".encode())
        summed.update(np.ascontiguousarray(array, "<f4").tobytes())
    return summed.hexdigest()
