"""The answer of `bench conv`: whether a kernel is correct, and how it stands against peers, the floor and our best."""

from typing import List, NamedTuple, Optional, Tuple

from . import verdicts
from .documents import MeasuredTime
from .records import OURS, PEER, WRONG, BenchCase, BenchResult, Measurement


class Conclusion(NamedTuple):
    """How one kernel stands over all cases that it takes; ratios are of sums of median times."""

    name: str
    auto: bool  # whether this is what `auto` runs, not a user's file
    cases: int  # that it takes
    wrong: str  # why it is incorrect on the first case where it is; ""
    peer: Optional[Tuple[str, float]] = None  # the fastest peer, and its time over this one's
    percent_of_floor: Optional[float] = None  # None where the write floor does not apply
    best: Optional[Tuple[str, float]] = None  # our fastest kernel, and this one's time over its time


def conclusions(result: BenchResult) -> List[Conclusion]:
    """A conclusion for each kernel file; where there is none, one for what `auto` runs, where that was measured."""
    files = dict.fromkeys(row.name for case in result.cases for row in case.rows if row.file)
    found = [_conclusion(name, [(case, case.row(name)) for case in result.cases], False) for name in files]
    if not files:
        rows = [(case, case.row(case.auto)) for case in result.cases]
        names = " and ".join(dict.fromkeys(case.auto for case in result.cases))
        found = [_conclusion(names, rows, True)]
    return [each for each in found if each is not None]


def _conclusion(name: str, rows, auto: bool) -> Optional[Conclusion]:
    taken = [(case, row) for case, row in rows if row is not None and (row.timed or row.status == WRONG)]
    if not taken:
        return None
    wrong = next((row.reason for _, row in taken if row.status == WRONG), "")
    if wrong:
        return Conclusion(name, auto, len(taken), wrong)
    cases = [case for case, _ in taken]
    total = sum(row.median_ms for _, row in taken)
    peers = set.intersection(*(set(case.peers) for case in cases))
    times = sorted((sum(case.row(peer).median_ms for case in cases), peer) for peer in peers)
    floors = [case.fill_ms for case in cases]
    applies = all(floors) and not any(case.below_floor for case in cases)
    best = [fastest_kernel(case) for case in cases]
    ratio = None
    if all(best) and not auto:
        names = {row.name for row in best}
        ratio = (names.pop() if len(names) == 1 else "one per layer", total / sum(row.median_ms for row in best))
    return Conclusion(
        name,
        auto,
        len(cases),
        "",
        (times[0][1], times[0][0] / total) if times else None,
        min(100.0, 100 * sum(floors) / total) if applies else None,
        ratio,
    )


def fastest_kernel(case: BenchCase) -> Optional[Measurement]:
    """The fastest of the library's kernels in float32, which `auto` chooses from."""
    rows = (row for row in case.timed if row.kind == OURS and not row.file and row.status != WRONG)
    return next((row for row in rows if row.precision == "float32"), None)


def fastest_peer(case: BenchCase) -> Optional[Measurement]:
    """The fastest peer of a case."""
    return next((row for row in case.timed if row.kind == PEER), None)


def faster_than_auto(case: BenchCase) -> Optional[Tuple[Measurement, float, bool]]:
    """A kernel that took less time than what `auto` runs: its row, the ratio, and whether that is beyond the noise."""
    auto, best = case.row(case.auto), fastest_kernel(case)
    if auto is None or best is None or not auto.timed or best.name == auto.name:
        return None
    compared = verdicts.compare_times("", _time(auto), _time(best))
    return best, auto.median_ms / best.median_ms, compared.verdict == verdicts.FASTER  # type: ignore[operator]


def _time(row: Measurement) -> MeasuredTime:
    assert row.median_ms is not None and row.min_ms is not None
    return MeasuredTime(row.median_ms, row.median_ms - row.min_ms, row.runs, True, row.samples_ms)
