"""Judges the calls of one case in one process."""

import time
from typing import Dict, List, NamedTuple, Optional

from ..rubric import Rubric
from ..sandbox import Broken
from . import inputs
from .findings import Finding, plain
from .inputs import SecretStream, Seed
from .samples import Case, Sample
from .scrutiny import CLASSES, Found, scrutinise
from .session import Called, Session

_LONG = 20e-3  # seconds; if a call takes longer, the overhead besides the kernels is below 2% of its time
_SLOW = 0.5  # seconds; a first call that takes longer is timed, too, because its one-time costs are relatively small
_FLOOR_BYTES = 32 << 20  # bytes; smaller outputs stay in caches, and are not checked for "too fast"
# Upper bound, in seconds per bracket, of the difference between the time of the messages to and from a worker and the
# measured lag (device/lag.py). The difference varies between brackets of one and of ten calls, and from call to call.
_JITTER = 100e-6
_AGAIN = 5  # number of additional fills before a call is reported as faster than possible
_DISAGREE = 0.2  # largest relative difference between two honest clocks, in addition to the time to wake up
# Least and largest number of seconds for which an incorrect submission continues to run after the call. If its output
# changes, the submission works after the clock has stopped.
_LEFTOVER = 0.05, 1.0
_BITS = {1: "work before", 2: "work after", 4: "inputs changed"}  # the FOPS_FOUND_* that the worker's adapter reports


class Plan(NamedTuple):
    """How a case is called."""

    calls: int  # number of brackets of calls or, with `timed`, of timed brackets
    timed: bool  # whether the calls are timed
    until: float = float("inf")  # time.monotonic() after which one timed call is enough
    # Whether the output holds zeros before a call, as with the course's MXNet, instead of NaN.
    zeroed: bool = False
    # Whether the format has a prolog and an epilog. Op Time is then that of the forward call, by the adapter's clock.
    phases: bool = False
    examine: bool = False  # whether the adapter checks the tensors between its phases


class Notes:
    """The observations so far, from all runs of a submission."""

    def __init__(self, rubric: Rubric, seed: Seed):
        self.rubric, self.seed = rubric, seed
        self.samples: List[Sample] = []
        self.findings: List[Finding] = []
        # For each case, the shortest time in seconds in which the referee filled the output.
        self.fill: Dict[Case, float] = {}

    @property
    def refused(self) -> bool:
        """Whether any finding is REFUSED."""
        return any(finding.follows == "refused" for finding in self.findings)

    def found(self, kind: str, case: Optional[Case], text: str) -> None:
        """Note a finding, unless there is already one of this kind for the case."""
        where = case.words if case else ""
        if not any((finding.kind, finding.where) == (kind, where) for finding in self.findings):
            self.findings.append(Finding(kind, where, plain(text)))


def judge(session: Session, tensors, notes: Notes, case: Case, run: int, plan: Plan) -> None:
    """Call a submission on a case, and check each call.

    Parameters
    ----------
    session, tensors
        The session with the worker, and the tensors that the worker shares.
    notes
        Samples and findings are added to it.
    case, run, plan
        The case, the number of the run, and how the case is called.

    Raises
    ------
    Broken
        When the submission's process ends, or a call fails.
    """
    ours = (run, case.layer, case.shape.B)
    bracket: List = []
    number = counted = 0
    while counted < plan.calls:
        wanted = tensors.bracket(plan.timed and number > 0 and _short(notes, case))
        if len(wanted) != len(bracket):
            bracket = wanted
            lies = [slot.prepare(case.shape, notes.seed.stream(*ours, 1, at)) for at, slot in enumerate(bracket)]
            session.case(case.shape, lies, tensors.on_device, plan.examine)
        # If the time of a call is unknown, the second call is alone in its bracket and does not count. It shows how
        # long a call takes. The first call cannot show this, because it also loads code.
        alone = tensors.on_device and number == 1 and not _known_times(notes, case)
        given = [
            inputs.fresh(notes.seed.stream(*ours, 2, number, index), case.shape, case.layer == 1)
            for index in range(len(bracket))
        ]
        seconds = min(slot.fill(each, 0.0 if plan.zeroed else float("nan")) for slot, each in zip(bracket, given))
        notes.fill[case] = min(seconds, notes.fill.get(case, seconds))
        called = session.call(number, tensors, bracket)
        if called.status != 0:
            raise Broken(called.message or f"it failed with status {called.status}")
        looks = [_check_call(session, slot, notes, case, number, called, each) for slot, each in zip(bracket, given)]
        worst = max(looks, key=lambda found: CLASSES.index(found.precision))
        counts = plan._replace(timed=plan.timed and not alone)
        sample = _sample(tensors, notes, case, run, number, called, worst, counts, bracket)
        notes.samples.append(sample)
        if not worst.right:
            return
        counted += sample.timed or not plan.timed
        number += 1
        if counted and time.monotonic() > plan.until:
            return


def _known_times(notes: Notes, case: Case) -> List[float]:
    """Return the times of a case's calls in seconds, without the first call of a process, unless that was timed."""
    return [sample.seconds for sample in notes.samples if sample.case == case and (sample.call or sample.timed)]


def _short(notes: Notes, case: Case) -> bool:
    """Return whether a call is known to be so short that several calls must be timed together."""
    return min(_known_times(notes, case), default=_LONG) < _LONG


def _check_call(session, slot, notes: Notes, case: Case, number: int, called: Called, given) -> Found:
    """Check the output, the inputs and the guard zones after a call, note findings, and return the check's result."""
    slot.take()
    found = scrutinise(slot.y, given, case.shape, SecretStream.fresh())
    if not found.right:
        _wrong(session, slot, notes, case, number, called, found.diagnosis.line())
    elif found.precision != "float32" and notes.rubric.precision == "float32":
        notes.found("precision", case, f"right in {found.precision} only")
    if not slot.same_inputs(given):
        notes.found("inputs changed", case, "data or weights differ from what they were before the call")
    if not slot.same_guards():
        notes.found("guard zones", case, "it wrote outside of the output")
    return found


def _sample(
    tensors, notes: Notes, case: Case, run: int, number: int, called: Called, found: Found, plan: Plan, bracket: List
) -> Sample:
    """Note findings about a bracket's times, and return its sample."""
    for bit, kind in _BITS.items():
        if called.findings & bit:
            notes.found(kind, case, "the adapter found this between the phases")
    if not plan.examine:  # the adapter's examination takes time, so the clocks would differ
        _clocks(tensors, notes, case, called, plan.phases, bracket)
    first = number == 0 and called.seconds < _SLOW
    # The format decides whose clock gives Op Time; the worker's messages cannot change that.
    op = min(max(called.op_seconds, 0.0), called.seconds) if plan.phases else called.seconds
    return Sample(
        case,
        run,
        number,
        plan.timed and not first,
        called.seconds,
        op,
        called.op_seconds,
        found.precision,
        found.diagnosis.line(),
    )


def _wrong(session: Session, slot, notes: Notes, case: Case, number: int, called: Called, said: str) -> None:
    """Note a finding with the likely reason why an output is incorrect."""
    before = slot.digest()
    session.rest(min(max(called.seconds, _LEFTOVER[0]), _LEFTOVER[1]))
    slot.take()
    if slot.digest() != before:
        notes.found("work after", case, "the output still changed after the call")
    if any(sample.case == case and sample.precision != "wrong" for sample in notes.samples):
        notes.found("call number", case, f"right in an earlier call, wrong in call {number + 1} of its process: {said}")
    else:
        notes.found("wrong", case, said)


def _clocks(tensors, notes: Notes, case: Case, called: Called, phases: bool, bracket: List) -> None:
    """Note a finding if a call is faster than possible, or if the worker's clock and the referee's clock disagree."""
    images, filters, height, width = case.shape.output

    def too_fast() -> bool:
        floor = tensors.floor * notes.fill[case] - (_JITTER / len(bracket) if tensors.on_device else 0.0)
        return called.seconds < floor

    if 4 * images * filters * height * width >= _FLOOR_BYTES and too_fast():
        # Fill again before the finding, because the first fill takes longer, and so does a fill while other programs
        # run.
        again = min(slot.refill(0.0) for slot in bracket for _ in range(_AGAIN))
        notes.fill[case] = min(again, notes.fill[case])
        if too_fast():
            notes.found(
                "too fast",
                case,
                f"{1e3 * called.seconds:.3f} ms, less than {tensors.floor:.0%} of the "
                f"{1e3 * notes.fill[case]:.3f} ms that it takes only to write the output",
            )
    own = called.layer_seconds if phases else called.op_seconds
    if min(own, called.op_seconds) < 0 or abs(own - called.seconds) > _DISAGREE * called.seconds + tensors.latency:
        notes.found(
            "clocks",
            case,
            f"the submission's process says {1e3 * own:.3f} ms, the referee {1e3 * called.seconds:.3f} ms",
        )
