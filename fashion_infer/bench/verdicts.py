"""Compares two files of measurements and finds the differences that are larger than the noise.

The noise is the largest of each measurement's spread (its passes' inter-quartile range; median minus minimum without
samples) and 3% of the first median, or 10% with fewer than four runs. A difference must also pass `slower`, a rank
test, which assumes no distribution. If the slower run would not be slower without the time for which its threads waited
for a processor, the verdict is BUSY.
"""

import math
import statistics
from bisect import bisect_left, bisect_right
from collections import Counter
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ..errors import UsageError
from .documents import MeasuredFile, MeasuredTime

_FLOOR, _FLOOR_OF_FEW, _FEW = 0.03, 0.10, 4
# Significance level of the test for one line of a comparison. It is small, because a false alarm makes you search for
# a cause that does not exist. 50 comparisons of ten lines have 0.05 false alarms on average by this test alone, and
# not all of them exceed the noise. With a level of 0.001, tests on times with two modes had a false alarm.
_ALPHA = 0.0001

SAME, FASTER, SLOWER, NO_PARTNER = "within the noise", "faster", "slower", "only in {}"
BUSY = "unclear: other programs"
EQUAL, DIFFERENT, NOT_JUDGED = "same", "DIFFERS", "not comparable"


class ComparedTime(NamedTuple):
    """A time in one file or in both, in milliseconds."""

    what: str
    a: Optional[float]  # median in the first file; None if it is missing there
    b: Optional[float]  # median in the second file; None if it is missing there
    noise: Optional[float]  # None if a median is missing
    verdict: str
    ours: bool  # False for times of peers and limits

    @property
    def ratio(self) -> Optional[float]:
        """The second time divided by the first, below 1 if the second is faster; None if that is impossible."""
        return self.b / self.a if self.a and self.b is not None else None


class ComparedFact(NamedTuple):
    what: str
    a: str
    b: str
    verdict: str


class Comparison(NamedTuple):
    """Comparison of two files of measurements."""

    a: MeasuredFile
    b: MeasuredFile
    settings: List[Tuple[str, str, str]]  # settings that differ, as (name, first, second)
    lines: List[ComparedTime]
    facts: List[ComparedFact]

    def as_dict(self) -> Dict[str, Any]:
        settings = [dict(zip(("what", "a", "b"), setting)) for setting in self.settings]
        times = [{**line._asdict(), "ratio": line.ratio} for line in self.lines]
        facts = [fact._asdict() for fact in self.facts]
        return {"a": self.a.name, "b": self.b.name, "settings": settings, "times": times, "facts": facts}

    def faults(self, allowed: float = 0.0) -> List[str]:
        """Return the reasons for which --check and --fail-above fail.

        A reason is a fact that differs, or one of our times that increased by more than the noise and by more than the
        fraction `allowed` of the first time.
        """
        slower = [line for line in self.lines if line.verdict == SLOWER and line.ours]
        found = [f"{line.what} is slower" for line in slower if line.ratio is None or line.ratio > 1 + allowed]
        return found + [f"{fact.what} differs" for fact in self.facts if fact.verdict == DIFFERENT]


def compare_files(a: MeasuredFile, b: MeasuredFile, check: bool = False) -> Comparison:
    """Compare two files of measurements; with `check`, UsageError also for files with a single repeat."""
    if a.kind != b.kind:
        raise UsageError(f"{a.name} is from `{a.kind}` and {b.name} from `{b.kind}`: compare files of the same command")
    if a.size != b.size:
        raise UsageError(f"{a.name} has {a.size} images and {b.name} has {b.size}: their times cannot be compared")
    if not set(a.times) & set(b.times) and not set(a.facts) & set(b.facts):
        raise UsageError(f"{a.name} and {b.name} have nothing in common")
    for document in (a, b) if check else ():
        if any(time.runs == 1 for time in document.times.values() if time.ours):
            raise UsageError(
                f"{document.name} has one repeat, which does not show the noise: measure both with --repeat 10"
            )
    settings = [
        (name, a.settings.get(name, ""), b.settings.get(name, ""))
        for name in {**a.settings, **b.settings}
        if a.settings.get(name, "") != b.settings.get(name, "")
    ]
    lines = [compare_times(what, a.times.get(what), b.times.get(what)) for what in {**a.times, **b.times}]
    facts = [_fact(what, a, b) for what in a.facts if what in b.facts]
    return Comparison(a, b, settings, lines, facts)


def compare_times(what: str, a: Optional[MeasuredTime], b: Optional[MeasuredTime]) -> ComparedTime:
    """Compare two times of what `what` names, and judge whether `b` is slower or faster; None is a missing time."""
    if a is None or b is None:
        known = b if a is None else a
        verdict = NO_PARTNER.format("B" if a is None else "A")
        return ComparedTime(what, a and a.median, b and b.median, None, verdict, known.ours)
    floor = _FLOOR_OF_FEW if min(a.runs, b.runs) < _FEW else _FLOOR
    noise = max(a.spread, b.spread, floor * a.median)
    verdict, less, more = (SLOWER, a, b) if b.median > a.median else (FASTER, b, a)
    if more.median - less.median <= noise or not _differ_by_ranks(less.samples, more.samples):
        verdict = SAME
    elif more.least and (
        statistics.median(more.least) - less.median <= noise or not _differ_by_ranks(less.samples, more.least)
    ):
        verdict = BUSY
    return ComparedTime(what, a.median, b.median, noise, verdict, a.ours and b.ours)


def _differ_by_ranks(less, more) -> bool:
    """Return whether the second samples are larger by the rank test; True if samples are missing."""
    return not less or not more or slower(less, more)


def _fact(what, a, b) -> ComparedFact:
    if a.subject != b.subject:
        return ComparedFact(what, a.facts[what], b.facts[what], NOT_JUDGED)
    return ComparedFact(what, a.facts[what], b.facts[what], EQUAL if a.facts[what] == b.facts[what] else DIFFERENT)


def slower(first: Sequence[float], second: Sequence[float]) -> bool:
    """Return whether the second samples are larger: by the rank test, or because each exceeds all first samples.

    Fewer than ten samples on each side cannot pass the rank test.
    """
    return max(first) < min(second) or p_of_larger(first, second) < _ALPHA


def p_of_larger(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the p-value that the second is larger: one-sided Mann-Whitney U test, normal approximation."""
    ordered, pairs, n = sorted(first), len(first) * len(second), len(first) + len(second)
    u = sum(bisect_left(ordered, value) + bisect_right(ordered, value) for value in second) / 2
    ties = sum(count**3 - count for count in Counter([*first, *second]).values())
    variance = pairs / 12 * (n + 1 - ties / (n * (n - 1)))
    if variance <= 0:
        return 1.0  # all samples are equal
    return math.erfc((u - pairs / 2 - 0.5) / math.sqrt(2 * variance)) / 2
