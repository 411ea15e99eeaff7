"""Rank test of whether samples are larger than others by more than chance. It assumes no distribution.

It avoids a dependency on SciPy; tests/unit/test_compare.py compares both.
"""

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from typing import Sequence

# Significance level of the test for one line of a comparison. It is small, because a false alarm makes you search for
# a cause that does not exist. 50 comparisons of ten lines have 0.05 false alarms on average by this test alone, and
# not all of them exceed the noise. With a level of 0.001, tests on times with two modes had a false alarm.
_ALPHA = 0.0001


def slower(first: Sequence[float], second: Sequence[float]) -> bool:
    """Return whether the second samples are larger: by the rank test, or because each exceeds all first samples.

    Fewer than ten samples on each side cannot pass the rank test.
    """
    return max(first) < min(second) or p_of_larger(first, second) < _ALPHA


def p_of_larger(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the probability that the second samples rank this high by chance: the one-sided Mann-Whitney U test.

    It is the normal approximation with corrections for ties and continuity.
    """
    ordered, pairs, n = sorted(first), len(first) * len(second), len(first) + len(second)
    u = sum(bisect_left(ordered, value) + bisect_right(ordered, value) for value in second) / 2
    ties = sum(count**3 - count for count in Counter([*first, *second]).values())
    variance = pairs / 12 * (n + 1 - ties / (n * (n - 1)))
    if variance <= 0:
        return 1.0  # all samples are equal
    return math.erfc((u - pairs / 2 - 0.5) / math.sqrt(2 * variance)) / 2
