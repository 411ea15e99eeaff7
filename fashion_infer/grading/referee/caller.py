"""The caller of a submission in its sandbox: lays out the tensors, and has the worker of a session make the calls."""

import math
import os
from typing import List, Optional, Sequence, Tuple

import numpy as np

from ...graph.layers import ConvolutionShape
from ...judging import calls, judge
from ...judging.calls import USUAL, Caller, Conditions, Failed
from ...judging.inputs import Inputs, KeyedStream, random_inputs
from ...judging.tensors import NEVER_NUMBER
from ..intake.building import BuiltSubmission
from ..sandbox import Broken
from .findings import plain
from .notes import Notes
from .samples import Case
from .session import Session, TimedBracket

# Least and largest number of seconds for which an incorrect submission continues to run after the call. If its output
# changes, the submission works after the clock has stopped.
_LEFTOVER = 0.05, 1.0


class SandboxedCaller(Caller):
    """Calls a submission on one layer, with any number of images for which there is memory. Findings about times are
    added to the notes, for the case. `zeroed` says that the output holds zeros before a call, as with the course's
    MXNet, and `guards` is the stream of the bytes of guard zones."""

    def __init__(
        self,
        session: Session,
        tensors,
        plugin: BuiltSubmission,
        notes: Notes,
        case: Case,
        zeroed: bool,
        guards: KeyedStream,
    ):
        self.session, self.tensors, self.plugin, self.zeroed = session, tensors, plugin, zeroed
        self._notes, self._case, self._guards = notes, case, guards
        self.backend = "cpu" if notes.rubric.backend == "cpu" else "gpu"
        self.parallel = self.backend == "gpu" or plugin.parallel
        self.can = ("examine", "output", "guard", "threads" if self.backend == "cpu" else "own",
                    *(["moved"] if len(tensors.slots) > 1 else []))  # fmt: skip
        self._number = self._at = 0
        self._laid: Optional[Tuple] = None  # the layout that the worker knows
        self.broken = False  # whether the worker has ended, or must be ended
        self.last: Optional[TimedBracket] = None  # the last call with as many images as the case

    def call(self, inputs: Inputs, conditions: Conditions = USUAL) -> calls.Called:
        slot = self._slot(inputs.shape, conditions)
        called = self.bracket([slot], [inputs], conditions)
        if inputs.shape.B == self._case.shape.B:
            self.last = called
            if not conditions.examine:  # the adapter's examination takes time, so the clocks would differ
                self._notes.clocks(self.tensors, self._case, called, self.plugin.phases, [slot])
        slot.take()
        stray = slot.stray()
        if not stray and np.isnan(slot.y.max()) and self.works_on(slot, called):
            stray = "returns_early"
        layer = called.layer_seconds if self.plugin.phases else 0.0
        return calls.Called(slot.y, stray, not slot.same_inputs(inputs), called.findings, called.op_seconds, layer)

    def bracket(self, slots: List, given: Sequence[Inputs], conditions: Optional[Conditions] = None) -> TimedBracket:
        """Make a call on each of some inputs, in the slots; the times of the result are means."""
        asked = conditions or USUAL
        shape = given[0].shape
        examine = conditions.asked if conditions else 0
        laid = (shape, len(slots), slots[0], asked.guard, examine, asked.threads)
        number = asked.output == "number" and not self.zeroed
        value = 0.0 if self.zeroed else float(NEVER_NUMBER) if number else float("nan")
        try:
            if laid != self._laid:
                places = [slot.prepare(shape, self._guards, asked.guard) for slot in slots]
                count = (asked.threads or len(os.sched_getaffinity(0))) if conditions else 0
                self.session.case(shape, places, self.tensors.on_device, examine, count)
                self._laid = laid
                if self.session.cold((shape, count)):
                    self._warm_up(slots, shape, value)
            seconds = min(slot.fill(each, value) for slot, each in zip(slots, given))
            if shape.B == self._case.shape.B:
                self._notes.filled(self._case, seconds)
            patience = judge.first_seconds(shape) if shape.B == 1 and not self._number else math.inf
            called = self.session.call(self._number, self.tensors, slots, patience)
        except Broken as error:
            self.broken = True
            error.details = {"during": "call", "images": shape.B, **error.details}
            raise
        return self._succeeded(called)

    def _warm_up(self, slots: List, shape: ConvolutionShape, value: float) -> None:
        for slot in slots:
            slot.fill(random_inputs(self._guards, shape), value)
        self._succeeded(self.session.call(self._number, self.tensors, slots, processes=True))

    def _succeeded(self, called: TimedBracket) -> TimedBracket:
        self._number += 1
        if called.status:
            code = "device_error" if "CUDA error" in called.message else "failed"
            raise Failed(code, text=plain(called.message) or f"it failed with status {called.status}")
        return called

    def works_on(self, slot, called: TimedBracket) -> bool:
        """Let an incorrect submission run without a call; return whether its output then changes."""
        before = slot.digest()
        self.session.rest(min(max(called.seconds, _LEFTOVER[0]), _LEFTOVER[1]))
        slot.take()
        return slot.digest() != before

    def _slot(self, shape: ConvolutionShape, conditions: Conditions):
        slots = self.tensors.slots
        if conditions.moved and slots[-1].fits(shape) and self._laid:
            slots[self._at].spoil()
            self._at = 1 - self._at if len(slots) > 1 else 0
        if not slots[self._at].fits(shape):
            self._at = 0
        return slots[self._at]
