"""The referee: calls a submission in its sandbox, and believes nothing but its own clock and its own eyes.

A run is a fresh process, which gets all cases in a random order. The first run asks whether outputs are right, for
every number of images; the later ones are timed. Every call of either has fresh inputs and a poisoned output, and is
looked at whole (`judging`).
"""

import contextlib
import threading
import time
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from ..intake.building import BuiltSubmission
from ..rubric import Rubric
from ..sandbox import Box, Broken, Layers, Limits
from . import inputs
from .findings import Finding
from .inputs import Seed
from .judging import Notes, Plan, judge
from .memory import place
from .samples import Case, Sample, cases, spread
from .session import Session
from .tensors import HostTensors

_CALLS = 2  # calls of each case in the untimed run: state kept from one call shows in the next
_MOST_BROKEN = 2  # runs that may break before the rest is left


class Turns:
    """Who may use the machine: several submissions that are asked whether they are right, or one that is timed.

    Parameters
    ----------
    count
        How many side by side.
    """

    def __init__(self, count: int):
        self.count = count
        self._free, self._next = threading.Semaphore(count), threading.Lock()

    @contextlib.contextmanager
    def beside(self) -> Iterator[None]:
        """With others that are not timed."""
        with self._taken(1):
            yield

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """With no other."""
        with self._taken(self.count):
            yield

    @contextlib.contextmanager
    def _taken(self, count: int) -> Iterator[None]:
        with self._next:  # who waits for all of it is not overtaken by those who need one part
            for _ in range(count):
                self._free.acquire()
        try:
            yield
        finally:
            for _ in range(count):
                self._free.release()


class Machine(NamedTuple):
    """Where submissions run."""

    layers: Layers
    unsandboxed: bool = False
    gpu: Optional[Any] = None  # a `device.Gpu`; None on the CPU


class Observed(NamedTuple):
    """All that a referee has seen of a submission."""

    samples: Tuple[Sample, ...]
    findings: Tuple[Finding, ...]
    layers: Dict[str, Any]  # layers of the sandbox, as the worker reported them before it loaded the submission
    printed: str
    fill_ms: Dict[str, float]  # by case, the fastest that the referee wrote as many bytes


class Referee:
    """Judges one submission.

    Parameters
    ----------
    plugin
        What was built.
    rubric
        What is asked; its backend is "cpu" or "gpu".
    seed
        The secret.
    machine
        Where.
    turns
        Of several submissions; None for one alone.
    """

    def __init__(
        self, plugin: BuiltSubmission, rubric: Rubric, seed: Seed, machine: Machine, turns: Optional[Turns] = None
    ):
        self._plugin, self._rubric, self._seed, self._machine = plugin, rubric, seed, machine
        self._turns = turns or Turns(1)
        self._tensors: Any = None  # while it observes
        self._begin()

    def _begin(self) -> None:
        self._notes = Notes(self._rubric, self._seed)
        self._layers: Dict[str, Any] = {}
        self._printed = ""
        self._run = 0
        self._broken = 0

    def observe(self) -> Observed:
        """Run everything; what goes wrong in a submission is in the result.

        Raises
        ------
        DeviceError
            When the machine fails.
        """
        right, to_time = self._cases("right"), self._cases("time")
        # Only an adapter with phases has something to look at between them.
        plan = Plan(_CALLS, False, phases=self._plugin.phases, examine=self._plugin.phases)
        with self._turns.beside(), self._made(right):
            self._one_run(right, plan)
        if self._notes.refused and self._turns.count > 1:  # submissions beside this one must not cost it points
            self._begin()
            with self._turns.alone(), self._made(right):
                self._one_run(right, plan)
        if to_time and not self._notes.refused:
            with self._turns.alone(), self._made(to_time):
                self._time(to_time)
        notes = self._notes
        fill = {case.words: 1e3 * seconds for case, seconds in notes.fill.items()}
        return Observed(tuple(notes.samples), tuple(notes.findings), self._layers, self._printed, fill)

    def _cases(self, kind: str) -> List[Case]:
        checks = [check for check in self._rubric.checks_of(self._rubric.backend) if check.kind == kind]
        counts = sorted({n for check in checks for n in check.n})
        return cases(self._rubric.edition, counts, self._rubric.layers)

    @contextlib.contextmanager
    def _made(self, asked: Sequence[Case]) -> Iterator[None]:
        """With tensors for some cases, where the submission's format has them."""
        gpu = self._machine.gpu if self._rubric.backend == "gpu" else None
        places = [place(case.shape) for case in asked]
        if not places:
            yield
            return
        if gpu is not None and not self._plugin.host_memory:
            self._tensors = gpu.tensors(places, gpu.lag(self._machine))
        else:
            self._tensors = HostTensors(max(lie.end for lie in places), gpu is not None)
        try:
            yield
        finally:
            self._tensors.close()

    def _time(self, to_time: Sequence[Case]) -> None:
        """Fresh processes until the spread is small, or the time is up."""
        timing = self._rubric.timing
        start, runs = time.monotonic(), 0
        while not self._notes.refused:
            used = time.monotonic() - start
            few = runs < timing.runs and used < 2 * timing.seconds
            if not few and (used > timing.seconds or self._steady(to_time)):
                return
            runs += 1
            self._one_run(to_time, Plan(timing.calls, True, start + timing.seconds, phases=self._plugin.phases))

    def _steady(self, to_time: Sequence[Case]) -> bool:
        timed = [sample for sample in self._notes.samples if sample.timed]
        values = [[sample.op_seconds for sample in timed if sample.case == case] for case in to_time]
        return all(spread(seconds) <= self._rubric.timing.spread for seconds in values)

    def _one_run(self, todo: Sequence[Case], plan: Plan) -> None:
        """One fresh process; again a fresh one for what is left when it breaks."""
        waiting = list(inputs.shuffled(self._notes.seed.stream(self._run, 0), todo))
        while waiting and self._broken < _MOST_BROKEN:
            self._run += 1
            case: Optional[Case] = None
            try:
                with self._session() as session:
                    self._layers = session.layers
                    try:
                        said = session.load(self._plugin, self._rubric.backend == "gpu", self._tensors.shared.device)
                        plan = plan._replace(zeroed=bool(said["zero_output"]))
                        while waiting:
                            case = waiting.pop(0)
                            judge(session, self._tensors, self._notes, case, self._run, plan)
                    finally:
                        self._printed = self._printed or session.printed
            except Broken as error:
                # In loading it would break again.
                self._broken = _MOST_BROKEN if case is None else self._broken + 1
                self._notes.found("broken", case, str(error))

    def _session(self) -> Session:
        limits, gpu, plugin = self._rubric.limits, self._machine.gpu, self._plugin
        box = Box(
            Limits(limits.seconds, limits.memory, limits.disk, limits.printed, limits.threads),
            read=(str(plugin.path), *plugin.read), processes=plugin.kind == "python",
        )  # fmt: skip
        if self._rubric.backend == "gpu" and gpu is not None:
            box = gpu.shown(box)
        self._tensors.clear()
        return Session(box, self._machine.layers, self._tensors.shared, self._machine.unsandboxed, plugin.packages)
