"""Rank test of whether samples are larger than others by more than chance; assumes no distribution.

Hand-written to avoid a dependency on SciPy; tests/unit/test_compare.py compares it with SciPy's.
"""

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from typing import Sequence

# Significance for one line of a comparison. A false alarm makes you search for nothing: 50 comparisons of ten lines
# raise 0.05 by this test alone, and not all of those exceed the noise. With 0.001, tests of two modes had one.
_ALPHA = 0.0001


def slower(first: Sequence[float], second: Sequence[float]) -> bool:
    """Whether the second samples are larger: by the rank test, or because each exceeds all of the first.

    Fewer than ten of each cannot pass the test; they can only show that they do not overlap.
    """
    return max(first) < min(second) or p_of_larger(first, second) < _ALPHA


def p_of_larger(first: Sequence[float], second: Sequence[float]) -> float:
    """Probability that samples of one distribution rank as high as the second do, or higher.

    This is the one-sided Mann-Whitney U test, by the normal approximation with corrections for ties and continuity.
    """
    ordered, pairs, n = sorted(first), len(first) * len(second), len(first) + len(second)
    u = sum(bisect_left(ordered, value) + bisect_right(ordered, value) for value in second) / 2
    ties = sum(count**3 - count for count in Counter([*first, *second]).values())
    variance = pairs / 12 * (n + 1 - ties / (n * (n - 1)))
    if variance <= 0:
        return 1.0  # all are equal
    return math.erfc((u - pairs / 2 - 0.5) / math.sqrt(2 * variance)) / 2
