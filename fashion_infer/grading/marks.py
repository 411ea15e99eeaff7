"""Computes the points of a submission from the referee's observations."""

from typing import List, NamedTuple, Optional, Sequence, Tuple

from ..system import noise
from .referee import Observed
from .referee.findings import REFUSED, Finding
from .referee.samples import Times, cases, times
from .rubric import Rubric, RubricCheck

# Findings for which Layer Time counts instead of Op Time, which the worker reports in formats with phases.
_OUTSIDE = ("work_before", "clocks")


class Mark(NamedTuple):
    name: str
    kind: str
    points: float
    out_of: float
    passed: bool  # whether it earned all of its points
    message: str


class Marks(NamedTuple):
    marks: Tuple[Mark, ...]
    times: Tuple[Times, ...]  # times of the cases that were timed
    op_ms: Optional[float]  # time for the ranking: sum over the layers of the first time check; None if not timed
    layer_ms: Optional[float]  # sum of the same layers' Layer Times; None if not timed

    @property
    def points(self) -> float:
        return sum(mark.points for mark in self.marks)

    @property
    def out_of(self) -> float:
        return sum(mark.out_of for mark in self.marks)


def nothing(rubric: Rubric) -> Marks:
    checks = rubric.checks_of(rubric.backend)
    return Marks(tuple(Mark(c.name, c.kind, 0, c.points, False, "it could not be run") for c in checks), (), None, None)


def of(rubric: Rubric, observed: Observed) -> Marks:
    marks, measured = [], []
    op_ms = layer_ms = None
    for check in rubric.checks_of(rubric.backend):
        if check.kind == "build":
            marks.append(Mark(check.name, check.kind, check.points, check.points, True, "it compiles"))
            continue
        wrong = _wrong(rubric, check, observed)
        if check.kind == "right":
            what = f"right for n = {', '.join(map(str, check.n))}"
            marks.append(_mark(check, 0.0 if wrong else 1.0, wrong or what))
            continue
        found = [times(observed.samples, case) for case in cases(rubric.edition, check.n, rubric.layers)]
        whole = [one for one in found if one is not None]
        measured += whole
        if wrong or len(whole) < len(found):
            marks.append(_mark(check, 0.0, wrong or "not measured, because of an earlier finding"))
            continue
        outside = any(finding.code in _OUTSIDE for finding in observed.findings)
        layers = sum(one.layer_time for one in whole)
        total = layers if outside else sum(one.op for one in whole)
        if op_ms is None:
            op_ms, layer_ms = total, layers
        slow = sum((one.layer_time if outside else one.op) * one.doubt for one in whole)
        share = check.share(slow)
        said = f"{total:.3f} ms{' (Layer Time)' if outside else ''}{noise.beside(*(one.spread for one in whole))}"
        said += f", also when timed again; {slow:.3f} ms, its slower quartile, counts" if slow > total else ""
        marks.append(_mark(check, share, f"{said}: {_wanted(check, share)}"))
    return Marks(tuple(marks), tuple(measured), op_ms, layer_ms)


def _mark(check: RubricCheck, share: float, message: str) -> Mark:
    return Mark(check.name, check.kind, round(share * check.points, 4), check.points, share >= 1, message)


def _wanted(check: RubricCheck, share: float) -> str:
    if share >= check.steps[0][1]:
        return f"no more than {check.steps[0][0]:g} ms"
    return f"{share:.0%} of the points; all of them up to {check.steps[0][0]:g} ms"


def _wrong(rubric: Rubric, check: RubricCheck, observed: Observed) -> str:
    own = {case.words for case in cases(rubric.edition, check.n, rubric.layers)}
    against = refusals(observed.findings)
    for finding in against:
        # A refused finding in any case voids all times, but only the correctness checks that have this case.
        if check.kind == "time" or finding.where in own or not finding.where:
            return finding.short
    called = {sample.case.words for sample in observed.samples}
    if check.kind == "right" and not own <= called:
        return "not tried, because of an earlier finding"
    return ""


def refusals(findings: Sequence[Finding]) -> List[Finding]:
    return [finding for finding in findings if finding.follows == REFUSED]
