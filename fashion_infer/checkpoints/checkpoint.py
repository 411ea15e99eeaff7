"""The common form of checkpoints from all file formats, and checks of their weights."""

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence

import numpy as np

from ..errors import CheckpointError
from ..system.text import excerpt

# Limit for all weights together, as float32: 67 million weights. AlexNet has 61 million, fa2017's network 3.6 million.
LARGEST_WEIGHTS = 256 << 20


class Checkpoint(NamedTuple):
    """A network and its weights.

    `symbol` is MXNet's JSON; `weights` maps argument names to float32 arrays; `attributes` holds facts about their
    origin (edition, seed, epoch, command, correctness, ...; may be empty).
    """

    symbol: str
    weights: Dict[str, np.ndarray]
    attributes: Dict[str, Any]
    trusted: bool = False  # whether its network may have any of MXNet's operators
    notice: Optional[str] = None  # what was changed when it was read


def check_finite(weights: Mapping[str, np.ndarray], source: str) -> None:
    """Raise CheckpointError if a weight is NaN or infinite."""
    for name, array in weights.items():
        if not np.isfinite(array).all():
            raise CheckpointError(f"{source}: weight {excerpt(name)} holds NaN or infinite values")


def check_size(shapes: Mapping[str, Sequence[int]]) -> None:
    """Raise ValueError if arrays of these shapes, as float32, exceed the size limit for weights."""
    sizes = []
    for shape in shapes.values():
        sizes.append(4)
        for extent in shape:  # Python's integers do not overflow
            sizes[-1] *= int(extent)
    if sum(sizes) > LARGEST_WEIGHTS:
        largest = list(shapes)[sizes.index(max(sizes))]
        raise ValueError(
            f"its weights take {sum(sizes) >> 20} MiB, {excerpt(largest)} alone {max(sizes) >> 20}, and at most "
            f"{LARGEST_WEIGHTS >> 20} are read"
        )


def rounded(name: str, array: np.ndarray, names: List[str]) -> np.ndarray:
    """Convert an array to float32; add its name to `names` if that changes a value.

    Values too large for float32 become infinite.
    """
    with np.errstate(over="ignore"):
        single = array.astype(np.float32)
    if not np.can_cast(array.dtype, np.float32) and not np.array_equal(single.astype(array.dtype), array):
        names.append(name)
    return single


def notice_of_rounded(names: Sequence[str]) -> Optional[str]:
    """The notice about weights that rounding changed; None if there are none."""
    if not names:
        return None
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"the network computes in float32: weight {excerpt(names[0])}{more} was rounded to it"
