"""Differences between two measurements that are larger than the noise.

The rule: two medians are the same if they differ by no more than the largest of three: the two spreads, and 3% of the
first median. The spread of a run is the inter-quartile range of its passes. The spread of a benchmark, whose file may
have no samples, is the median minus the minimum. If either has fewer than four runs, 10% replaces 3%.

If both files have samples, a difference must also pass `ranks.slower`: medians of ten draws from one distribution
sometimes differ by more than their quartiles.

Time taken by other programs does not count: the time that the slower one's threads waited for a processor is subtracted
before it is judged. Other programs can hardly have cost more than that.
"""

import statistics
from typing import List, NamedTuple, Optional, Tuple

from ..errors import UsageError
from . import ranks
from .documents import MeasuredFile, MeasuredTime, read

_FLOOR, _FLOOR_OF_FEW, _FEW = 0.03, 0.10, 4

SAME, FASTER, SLOWER, NO_PARTNER = "within the noise", "faster", "slower", "only in {}"
BUSY = "not told: other programs"
EQUAL, DIFFERENT, NOT_JUDGED = "same", "DIFFERS", "not comparable"


class ComparedTime(NamedTuple):
    """One time in both documents, in milliseconds."""

    what: str
    a: Optional[float]
    b: Optional[float]
    noise: Optional[float]
    verdict: str
    ours: bool

    @property
    def ratio(self) -> Optional[float]:
        """The second over the first: below 1 is faster. None if one is missing, or the first is 0."""
        return self.b / self.a if self.a and self.b is not None else None


class ComparedFact(NamedTuple):
    """Something that must not change."""

    what: str
    a: str
    b: str
    verdict: str


class Comparison(NamedTuple):
    """Two documents side by side."""

    a: MeasuredFile
    b: MeasuredFile
    settings: List[Tuple[str, str, str]]  # those that differ: name, first, second
    lines: List[ComparedTime]
    facts: List[ComparedFact]

    def faults(self, allowed: float = 0.0) -> List[str]:
        """Reasons for --check and --fail-above to fail: our times that are slower beyond the noise and by more than the
        allowed fraction of A's, and facts that differ."""
        slower = [line for line in self.lines if line.verdict == SLOWER and line.ours]
        found = [f"{line.what} is slower" for line in slower if line.ratio is None or line.ratio > 1 + allowed]
        return found + [f"{fact.what} differs" for fact in self.facts if fact.verdict == DIFFERENT]


def compare(first: str, second: str, check: bool = False) -> Comparison:
    """Compare two files.

    Parameters
    ----------
    first, second
        Paths; the second is judged against the first.
    check
        Whether the caller acts on `Comparison.faults`; a single repeat is then refused.

    Raises
    ------
    UsageError
        When they come from different commands, differ in the number of images, or have nothing in common; with `check`,
        when one has a single repeat.
    DataError
        When one is damaged or was not written by this package.
    """
    return compare_files(read(first), read(second), check)


def compare_files(a: MeasuredFile, b: MeasuredFile, check: bool = False) -> Comparison:
    """Compare two files that have already been read, as `compare` does."""
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
    """Compare one time of A and B in milliseconds, None if missing, and judge B."""
    if a is None or b is None:
        known = b if a is None else a
        verdict = NO_PARTNER.format("B" if a is None else "A")
        return ComparedTime(what, a and a.median, b and b.median, None, verdict, known.ours)
    floor = _FLOOR_OF_FEW if min(a.runs, b.runs) < _FEW else _FLOOR
    noise = max(a.spread, b.spread, floor * a.median)
    verdict, less, more = (SLOWER, a, b) if b.median > a.median else (FASTER, b, a)
    if more.median - less.median <= noise or not _told_apart(less.samples, more.samples):
        verdict = SAME
    elif more.least and (
        statistics.median(more.least) - less.median <= noise or not _told_apart(less.samples, more.least)
    ):
        verdict = BUSY
    return ComparedTime(what, a.median, b.median, noise, verdict, a.ours and b.ours)


def _told_apart(less, more) -> bool:
    """Whether samples differ; without samples, the medians decide."""
    return not less or not more or ranks.slower(less, more)


def _fact(what, a, b) -> ComparedFact:
    if a.subject != b.subject:
        return ComparedFact(what, a.facts[what], b.facts[what], NOT_JUDGED)
    return ComparedFact(what, a.facts[what], b.facts[what], EQUAL if a.facts[what] == b.facts[what] else DIFFERENT)
