"""One case in one process: its calls, and what each shows."""

import time
from typing import Dict, List, NamedTuple, Optional

from ..rubric import Rubric
from ..sandbox import Broken
from . import inputs
from .findings import Finding, plain
from .inputs import Seed
from .samples import Case, Sample
from .scrutiny import scrutinise
from .session import Called, Session

_SLOW = 0.5  # seconds: what a first call costs once is no part worth leaving out of a longer one
_FLOOR_BYTES = 32 << 20  # below that outputs stay in caches
_DISAGREE = 0.2  # share by which two honest clocks differ at most, beside what waking up takes
_LEFTOVER = 0.05, 1.0  # seconds that a wrong submission is given to go on: what changes then is work after the clock
_BITS = {1: "work before", 2: "work after", 4: "inputs changed"}  # FOPS_FOUND_*, which the worker's adapter saw


class Plan(NamedTuple):
    """How a case is called."""

    calls: int
    timed: bool
    until: float = float("inf")  # by time.monotonic(): then one timed call is enough
    zeroed: bool = False  # the output holds zeros before a call, as MXNet's years had it, and not NaN
    examine: bool = False  # let the adapter look between its phases


class Notes:
    """What was seen so far, over all runs."""

    def __init__(self, rubric: Rubric, seed: Seed):
        self.rubric, self.seed = rubric, seed
        self.samples: List[Sample] = []
        self.findings: List[Finding] = []
        self.fill: Dict[Case, float] = {}  # seconds, the fastest that the referee wrote as many bytes

    @property
    def refused(self) -> bool:
        """Whether anything was found that is refused."""
        return any(finding.follows == "refused" for finding in self.findings)

    def found(self, kind: str, case: Optional[Case], text: str) -> None:
        """Note a finding; of a kind only the first for each case."""
        where = case.words if case else ""
        if not any((finding.kind, finding.where) == (kind, where) for finding in self.findings):
            self.findings.append(Finding(kind, where, plain(text)))


def judge(session: Session, tensors, notes: Notes, case: Case, run: int, plan: Plan) -> None:
    """Call a submission on a case, and look at every call.

    Parameters
    ----------
    session, tensors
        The worker, and what it shares.
    notes
        Gets samples and findings.
    case, run, plan
        The case, the number of the process, and how often.

    Raises
    ------
    Broken
        When the submission ends, or fails.
    """
    lies = tensors.prepare(case.shape, notes.seed.generator(run, case.layer, case.shape.B, 1))
    session.case(case.shape, lies, tensors.on_device, plan.examine)
    number = counted = 0
    while counted < plan.calls:
        given = inputs.fresh(
            notes.seed.generator(run, case.layer, case.shape.B, 2, number), case.shape, case.layer == 1
        )
        seconds = tensors.fill(given, 0.0 if plan.zeroed else float("nan"))
        notes.fill[case] = min(seconds, notes.fill.get(case, seconds))
        called = session.call(number, tensors)
        secret = notes.seed.generator(run, case.layer, case.shape.B, 3, number)
        sample = _looked_at(session, tensors, notes, case, run, number, called, given, secret, plan)
        notes.samples.append(sample)
        if sample.precision == "wrong":
            return
        counted += sample.timed or not plan.timed
        number += 1
        if counted and time.monotonic() > plan.until:
            return


def _looked_at(session, tensors, notes, case, run, number, called: Called, given, secret, plan: Plan) -> Sample:
    """Look at one call."""
    if called.status != 0:
        raise Broken(called.message or f"it failed with status {called.status}")
    tensors.take()
    if not tensors.same_inputs(given):
        notes.found("inputs changed", case, "data or weights differ from what they were before the call")
    if not tensors.same_guards():
        notes.found("guard zones", case, "it wrote outside of the output")
    found = scrutinise(tensors.y, given, case.shape, secret)
    said = found.diagnosis.line()
    if not found.right:
        _wrong(session, tensors, notes, case, number, called, said)
    elif found.precision != "float32" and notes.rubric.precision == "float32":
        notes.found("precision", case, f"right in {found.precision} only")
    for bit, kind in _BITS.items():
        if called.findings & bit:
            notes.found(kind, case, "as the adapter saw between the phases")
    if not plan.examine:  # that takes time of its own
        _clocks(tensors, notes, case, called)
    first = number == 0 and called.seconds < _SLOW
    op = min(called.op_seconds, called.seconds) if called.layer_seconds else called.seconds
    timed = plan.timed and not first
    return Sample(case, run, number, timed, called.seconds, op, called.op_seconds, found.precision, said)


def _wrong(session: Session, tensors, notes: Notes, case: Case, number: int, called: Called, said: str) -> None:
    """Say why, as far as it shows."""
    before = tensors.digest()
    session.rest(min(max(called.seconds, _LEFTOVER[0]), _LEFTOVER[1]))
    tensors.take()
    if tensors.digest() != before:
        notes.found("work after", case, "the output went on changing after the call was done")
    if any(sample.case == case and sample.precision != "wrong" for sample in notes.samples):
        notes.found("call number", case, f"right in an earlier call, wrong in call {number + 1} of its process: {said}")
    else:
        notes.found("wrong", case, said)


def _clocks(tensors, notes: Notes, case: Case, called: Called) -> None:
    """Compare the call's time with what is possible, and with the worker's own."""
    images, filters, height, width = case.shape.y
    floor = tensors.floor * notes.fill[case]
    if 4 * images * filters * height * width >= _FLOOR_BYTES and called.seconds < floor:
        notes.found(
            "too fast", case, f"{1e3 * called.seconds:.3f} ms, less than {tensors.floor:.0%} of the "
            f"{1e3 * notes.fill[case]:.3f} ms that it takes to write the output and compute nothing",
        )  # fmt: skip
    own = called.layer_seconds or called.op_seconds
    if abs(own - called.seconds) > _DISAGREE * called.seconds + tensors.latency:
        notes.found("clocks", case, f"the submission's process says {1e3 * own:.3f} ms, the referee "
                    f"{1e3 * called.seconds:.3f} ms")  # fmt: skip
