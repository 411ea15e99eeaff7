"""Times a submission's calls on one case in one process, and compares their outputs."""

import time
from typing import List

from ...judging import judge
from ...judging.calls import Cause
from ...judging.inputs import Inputs, Seed, random_inputs
from ...judging.reasons import ADAPTER_FINDINGS
from ...judging.verdict import INCORRECT, ShapeVerdict, worst
from .caller import SandboxedCaller
from .notes import Notes
from .samples import Case, Sample
from .session import TimedBracket

_LONG = 20e-3  # seconds; if a call takes longer, the overhead besides the kernels is below 2% of its time
_SLOW = 0.5  # seconds; a first call that takes longer is timed, too, because its one-time costs are relatively small


def time_calls(
    caller: SandboxedCaller, notes: Notes, case: Case, seed: Seed, run: int, calls: int, until: float
) -> None:
    """Time brackets of calls on a case in a new process, and check each call; after `until`, one is enough. Failed if
    the submission's process ends, or a call fails."""
    tensors = caller.tensors
    number = counted = 0
    while counted < calls:
        bracket = tensors.bracket(number > 0 and _short(notes, case))
        # If the time of a call is unknown, the second call is alone in its bracket and does not count. It shows how
        # long a call takes. The first call cannot show this, because it also loads code.
        alone = tensors.on_device and number == 1 and not _known_times(notes, case)
        given = [
            random_inputs(seed.stream(run, case.layer, case.shape.B, 2, number, index), case.shape)
            for index in range(len(bracket))
        ]
        called = caller.bracket(bracket, given)
        found = [_checked(caller, slot, notes, case, called, each) for slot, each in zip(bracket, given)]
        precision = worst(*(one.precision for one in found))
        notes.clocks(tensors, case, called, caller.plugin.phases, bracket)
        timed = not alone and (number > 0 or called.seconds >= _SLOW)
        notes.samples.append(sample(caller, case, run, number, timed, called, precision))
        if precision == INCORRECT:
            return
        counted += timed
        number += 1
        if counted and time.monotonic() > until:
            return


def sample(
    caller: SandboxedCaller, case: Case, run: int, number: int, timed: bool, called: TimedBracket, precision: str
) -> Sample:
    phases = caller.plugin.phases
    # The format decides whose clock gives Op Time; the worker's messages cannot change that.
    op = min(max(called.op_seconds, 0.0), called.seconds) if phases else called.seconds
    own = called.layer_seconds if phases else called.op_seconds
    return Sample(case, run, number, timed, called.seconds, op, own, precision)


def _known_times(notes: Notes, case: Case) -> List[float]:
    return [one.seconds for one in notes.samples if one.case == case and (one.call or one.timed)]


def _short(notes: Notes, case: Case) -> bool:
    return min(_known_times(notes, case), default=_LONG) < _LONG


def _checked(
    caller: SandboxedCaller, slot, notes: Notes, case: Case, called: TimedBracket, given: Inputs
) -> ShapeVerdict:
    """Check the output, the inputs and the guard zones after a call, note findings, and return what they show."""
    slot.take()
    known = {one.precision for one in notes.samples if one.case.layer == case.layer}
    # What was float32 in the checks has no reason to be less precise when it is timed.
    found = judge.outputs("", slot.y, given.x, given.k, "float32" if known == {"float32"} else "half sums")
    if not found.right:
        less = found.cause if found.precision != INCORRECT else None
        cause = Cause("returns_early") if caller.works_on(slot, called) else less or _cause(notes, case)
        notes.found(cause, case, found.example)
    else:
        notes.precision(case, found.precision)
    if not slot.same_inputs(given):
        notes.found(Cause("inputs_changed"), case)
    stray = slot.stray()
    if stray:
        notes.found(Cause(stray), case)
    for bit, code in ADAPTER_FINDINGS.items():
        if called.findings & bit:
            notes.found(Cause(code), case)
    return found


def _cause(notes: Notes, case: Case) -> Cause:
    of_layer = [one for one in notes.samples if one.case.layer == case.layer]
    right = max((one.case.shape.B for one in of_layer if one.precision != INCORRECT), default=0)
    if right >= case.shape.B:
        return Cause("later_call")
    return Cause("many_images", {"right": right, "wrong": case.shape.B}) if right else Cause(INCORRECT)
