"""The referee: calls a submission in its sandbox, and relies on its own clock and on the outputs that it reads.

In a run, a new process gets all cases in a random order. The first run checks whether outputs are correct for each
number of images; later runs are timed. Each call has fresh inputs, and an output that was filled with NaN or zeros. The
whole output of each call is checked (`judging`).
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

_CALLS = 2  # number of calls of each case in the untimed run; the second shows whether state from the first is reused
_MOST_BROKEN = 2  # number of processes that may break before the remaining cases are skipped


class Turns:
    """A lock for the machine: either several submissions run at a time, for correctness checks, or one, to be timed.

    Parameters
    ----------
    count
        Largest number of submissions that run concurrently.
    """

    def __init__(self, count: int):
        self.count = count
        self._free, self._next = threading.Semaphore(count), threading.Lock()

    @contextlib.contextmanager
    def beside(self) -> Iterator[None]:
        """Return a context in which other submissions may run, but none is timed."""
        with self._taken(1):
            yield

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Return a context in which no other submission runs."""
        with self._taken(self.count):
            yield

    @contextlib.contextmanager
    def _taken(self, count: int) -> Iterator[None]:
        with self._next:  # a thread that waits for all permits is not overtaken by threads that need one permit
            for _ in range(count):
                self._free.acquire()
        try:
            yield
        finally:
            for _ in range(count):
                self._free.release()


class Machine(NamedTuple):
    """The sandbox and the GPU with which submissions run."""

    layers: Layers
    unsandboxed: bool = False
    gpu: Optional[Any] = None  # a `device.Gpu`; None on the CPU


class Observed(NamedTuple):
    """All observations of a referee about a submission."""

    samples: Tuple[Sample, ...]
    findings: Tuple[Finding, ...]
    layers: Dict[str, Any]  # layers of the sandbox, as the worker reported them before it loaded the submission
    printed: str  # the beginning of what the submission printed
    fill_ms: Dict[str, float]  # by case, the shortest time in which the referee filled the output


class Referee:
    """Judges one submission.

    Parameters
    ----------
    plugin
        The built submission.
    rubric
        The rubric; its backend is "cpu" or "gpu".
    seed
        The secret from which inputs are derived.
    machine
        The machine on which the submission runs.
    turns
        Lock that several submissions share; None for a single submission.
    """

    def __init__(
        self, plugin: BuiltSubmission, rubric: Rubric, seed: Seed, machine: Machine, turns: Optional[Turns] = None
    ):
        self._plugin, self._rubric, self._seed, self._machine = plugin, rubric, seed, machine
        self._turns = turns or Turns(1)
        self._tensors: Any = None  # set only during `observe`
        self._begin()

    def _begin(self) -> None:
        self._notes = Notes(self._rubric, self._seed)
        self._layers: Dict[str, Any] = {}
        self._printed = ""
        self._run = 0
        self._broken = 0

    def observe(self) -> Observed:
        """Run and check all cases. Errors of the submission raise nothing: they are findings in the result.

        Raises
        ------
        DeviceError
            When the machine fails.
        """
        right, to_time = self._cases("right"), self._cases("time")
        # Only an adapter with phases can check the tensors between phases.
        plan = Plan(_CALLS, False, phases=self._plugin.phases, examine=self._plugin.phases)
        with self._turns.beside(), self._made(right):
            self._one_run(right, plan)
        if self._notes.refused and self._turns.count > 1:  # try again alone, in case other submissions caused it
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
        """Return a context in which `_tensors` holds tensors for these cases, in the memory that the format uses."""
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
        """Time the cases in new processes until the spread of the times is small, or the time limit is reached."""
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
        """Run cases in a new process. If it breaks, run the remaining cases in another process."""
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
                # A process that breaks while it loads the submission would break again: do not retry.
                self._broken = _MOST_BROKEN if case is None else self._broken + 1
                self._notes.found("broken", case, str(error))

    def _session(self) -> Session:
        limits, gpu, plugin = self._rubric.limits, self._machine.gpu, self._plugin
        box = Box(
            Limits(limits.seconds, limits.memory, limits.disk, limits.printed, limits.threads),
            read=(str(plugin.path), *plugin.read),
            processes=plugin.kind == "python",
        )
        if self._rubric.backend == "gpu" and gpu is not None:
            box = gpu.shown(box)
        self._tensors.clear()
        return Session(box, self._machine.layers, self._tensors.shared, self._machine.unsandboxed, plugin.packages)
