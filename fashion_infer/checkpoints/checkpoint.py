"""What a checkpoint is, whichever file it came from."""

from typing import Any, Dict, Mapping, NamedTuple

import numpy as np

from ..errors import CheckpointError


class Checkpoint(NamedTuple):
    """A network and its weights.

    `symbol` is MXNet's JSON; `weights` maps argument names to float32 arrays; `attributes` holds what is known of
    where they came from (edition, seed, epoch, command, correctness, ...; may be empty).
    """

    symbol: str
    weights: Dict[str, np.ndarray]
    attributes: Dict[str, Any]


def check_finite(weights: Mapping[str, np.ndarray], source: str) -> None:
    """Raise CheckpointError when a weight is NaN or infinite."""
    for name, array in weights.items():
        if not np.isfinite(array).all():
            raise CheckpointError(f"{source}: weight {name} holds NaN or infinite values")
