"""The common form of checkpoints from all file formats, and checks of their weights."""

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence

import numpy as np

from ..errors import CheckpointError
from ..system.text import excerpt

# Size limit in bytes of all weights together as float32, that is, 67 million weights. AlexNet has 61 million weights,
# fa2017's network 3.6 million.
LARGEST_WEIGHTS = 256 << 20


class Checkpoint(NamedTuple):
    """A network and its weights.

    `symbol` is the network as MXNet's JSON. `weights` maps argument names to float32 arrays. `attributes` has facts
    about the checkpoint (edition, seed, epoch, command, correctness, ...) and may be empty.
    """

    symbol: str
    weights: Dict[str, np.ndarray]
    attributes: Dict[str, Any]
    trusted: bool = False  # whether the network may have any of MXNet's operators
    notice: Optional[str] = None  # notice about changes to the weights when the file was read


def check_finite(weights: Mapping[str, np.ndarray], source: str) -> None:
    """Raise CheckpointError if a weight is NaN or infinite."""
    for name, array in weights.items():
        if not np.isfinite(array).all():
            raise CheckpointError(f"{source}: weight {excerpt(name)} holds NaN or infinite values")


def check_size(shapes: Mapping[str, Sequence[int]]) -> None:
    """Raise ValueError if float32 arrays of these shapes exceed the size limit for weights."""
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
    """Convert an array to float32, and add its name to `names` if the conversion changes a value.

    Values too large for float32 become infinite.
    """
    with np.errstate(over="ignore"):
        single = array.astype(np.float32)
    if not np.can_cast(array.dtype, np.float32) and not np.array_equal(single.astype(array.dtype), array):
        names.append(name)
    return single


def notice_of_rounded(names: Sequence[str]) -> Optional[str]:
    """Return a notice about the weights that rounding changed; None if there are no such weights."""
    if not names:
        return None
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"the network computes in float32: weight {excerpt(names[0])}{more} was rounded to it"
