"""What the referee has observed of a submission so far, and the findings about its times."""

from typing import Dict, List, Optional, Sequence

from ...judging.calls import Cause
from ..rubric import Rubric
from .findings import REFUSED, Finding
from .samples import Case, Sample
from .session import TimedBracket

_FLOOR_BYTES = 32 << 20  # bytes; smaller outputs stay in caches, and are not checked for "too_fast"
# Upper bound, in seconds per bracket, of the difference between the time of the messages to and from a worker and the
# measured lag (device/lag.py). The difference varies between brackets of one and of ten calls, and from call to call.
_JITTER = 100e-6
_AGAIN = 5  # number of additional fills before a call is reported as faster than possible
_DISAGREE = 0.2  # largest relative difference between two honest clocks, in addition to the time to wake up


class Notes:
    def __init__(self, rubric: Rubric):
        self.rubric = rubric
        self.samples: List[Sample] = []
        self.findings: List[Finding] = []
        # For each case, the shortest time in seconds in which the referee filled the output.
        self.fill: Dict[Case, float] = {}

    @property
    def refused(self) -> bool:
        return any(finding.follows == REFUSED for finding in self.findings)

    def found(self, cause: Cause, case: Optional[Case] = None, seen: str = "") -> None:
        made = Finding.of(cause, case.words if case else "", seen)
        if not any((one.code, one.where) == (made.code, made.where) for one in self.findings):
            self.findings.append(made)

    def precision(self, case: Case, found: str) -> None:
        if self.rubric.precision == "float32" and found != "float32":
            self.found(Cause("less_precise", {"precision": found, "wanted": "float32"}), case)

    def filled(self, case: Case, seconds: float) -> None:
        self.fill[case] = min(seconds, self.fill.get(case, seconds))

    def clocks(self, tensors, case: Case, called: TimedBracket, phases: bool, bracket: Sequence) -> None:
        images, filters, height, width = case.shape.output

        def too_fast() -> bool:
            floor = tensors.floor * self.fill[case] - (_JITTER / len(bracket) if tensors.on_device else 0.0)
            return called.seconds < floor

        if 4 * images * filters * height * width >= _FLOOR_BYTES and too_fast():
            # Fill again before the finding, because the first fill takes longer, as does a fill beside other programs.
            self.filled(case, min(slot.refill(0.0) for slot in bracket for _ in range(_AGAIN)))
            if too_fast():
                times = {"ms": 1e3 * called.seconds, "share": tensors.floor, "fill": 1e3 * self.fill[case]}
                self.found(Cause("too_fast", times), case)
        own = called.layer_seconds if phases else called.op_seconds
        if min(own, called.op_seconds) < 0 or abs(own - called.seconds) > _DISAGREE * called.seconds + tensors.latency:
            self.found(Cause("clocks", {"own": 1e3 * own, "ms": 1e3 * called.seconds}), case)
