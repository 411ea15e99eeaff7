"""The class `Checkpoint`, to which every file format is read, and checks of its weights."""

import math
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence

import numpy as np

from ..errors import CheckpointError
from ..system.text import excerpt

# Size limit in bytes of all weights of a network together, as float32: 67 million weights. AlexNet has 61 million
# weights, fa2017's network 3.6 million.
LARGEST_WEIGHTS = 256 << 20


class Checkpoint(NamedTuple):
    """A network as MXNet's JSON, and its float32 weights by argument name."""

    symbol: str
    weights: Dict[str, np.ndarray]
    attributes: Dict[str, Any]  # such as edition, epoch and correctness; may be empty
    trusted: bool = False  # whether the network may have operators that are not in `operators.TABLE`
    notice: Optional[str] = None  # a sentence for the user if reading the file changed weights, see `notice_of_rounded`


def check_finite(weights: Mapping[str, np.ndarray], source: str) -> None:
    for name, array in weights.items():
        if not np.isfinite(array).all():
            raise CheckpointError(f"{source}: weight {excerpt(name)} holds NaN or infinite values")


def check_size(shapes: Mapping[str, Sequence[int]]) -> None:
    """Raise ValueError if float32 arrays of these shapes together exceed `LARGEST_WEIGHTS`; `shapes` is by name."""
    sizes = [4 * math.prod(map(int, shape)) for shape in shapes.values()]  # Python's integers do not overflow
    if sum(sizes) > LARGEST_WEIGHTS:
        largest = list(shapes)[sizes.index(max(sizes))]
        raise ValueError(
            f"its weights take {sum(sizes) >> 20} MiB, {excerpt(largest)} alone {max(sizes) >> 20}, but the limit is "
            f"{LARGEST_WEIGHTS >> 20} MiB"
        )


def rounded(name: str, array: np.ndarray, names: List[str]) -> np.ndarray:
    """Return an array as float32 (too large values become infinite); append `name` to `names` if a value changed."""
    with np.errstate(over="ignore"):
        single = array.astype(np.float32)
    if not np.can_cast(array.dtype, np.float32) and not np.array_equal(single.astype(array.dtype), array):
        names.append(name)
    return single


def notice_of_rounded(names: Sequence[str]) -> Optional[str]:
    if not names:
        return None
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"weight {excerpt(names[0])}{more} was rounded to float32, in which the network computes"
