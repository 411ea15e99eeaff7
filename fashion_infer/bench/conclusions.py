"""Conclusions of `bench conv`: whether a kernel is correct, and how fast it is compared with peers and our best."""

from typing import List, NamedTuple, Optional, Tuple

from ..system import noise
from . import verdicts
from .documents import MeasuredTime
from .records import OURS, PEER, WRONG, BenchCase, BenchResult, Measurement


class Conclusion(NamedTuple):
    """Summary of one kernel over all cases that it supports. Times are sums of the cases' median times."""

    name: str
    auto: bool  # True for the kernels that `auto` runs, False for a kernel file
    cases: int  # number of cases that the kernel supports
    wrong: str  # why the kernel is incorrect, from the first incorrect case; "" if it is correct
    peer: Optional[Tuple[str, float]] = None  # the fastest peer, and its time divided by this kernel's
    percent_of_floor: Optional[float] = None  # the write floor's time as a percentage of this kernel's, if it applies
    best: Optional[Tuple[str, float]] = None  # our fastest kernel, and this kernel's time divided by its time
    noise: str = ""  # the largest spread of its times, and of the peer's, see `system.noise.beside`


def conclusions(result: BenchResult) -> List[Conclusion]:
    """Return a conclusion for each kernel file; without files, one for the kernels that `auto` runs, if measured."""
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
    measured = [row for _, row in taken] + [case.row(times[0][1]) for case in cases if times]
    return Conclusion(
        name,
        auto,
        len(cases),
        "",
        (times[0][1], times[0][0] / total) if times else None,
        min(100.0, 100 * sum(floors) / total) if applies else None,
        ratio,
        noise.beside(*(row.spread for row in measured)),
    )


def fastest_kernel(case: BenchCase) -> Optional[Measurement]:
    """Return the fastest of the library's correct float32 kernels in a case; None if none was timed."""
    rows = (row for row in case.timed if row.kind == OURS and not row.file and row.status != WRONG)
    return next((row for row in rows if row.precision == "float32"), None)


def fastest_peer(case: BenchCase) -> Optional[Measurement]:
    return next((row for row in case.timed if row.kind == PEER), None)


def faster_than_auto(case: BenchCase) -> Optional[Tuple[Measurement, float, bool]]:
    """Return (row, ratio of times, whether that exceeds the noise) of the fastest kernel, if `auto` runs another."""
    auto, best = case.row(case.auto), fastest_kernel(case)
    if auto is None or best is None or not auto.timed or best.name == auto.name:
        return None
    compared = verdicts.compare_times("", _time(auto), _time(best))
    return best, auto.median_ms / best.median_ms, compared.verdict == verdicts.FASTER  # type: ignore[operator]


def _time(row: Measurement) -> MeasuredTime:
    assert row.median_ms is not None and row.min_ms is not None
    return MeasuredTime(row.median_ms, row.median_ms - row.min_ms, row.runs, True, row.samples_ms)
