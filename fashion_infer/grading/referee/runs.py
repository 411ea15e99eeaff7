"""The referee: calls a submission in its sandbox, and relies on its own clock and on the outputs that it reads.

In a run, a new process gets all cases in a random order: first the calls of the judge's plan (`judging.plan`) for each,
as in `kernel check`, later timed ones (`timing`).
"""

import contextlib
import functools
import threading
import time
from collections import Counter
from typing import Any, Callable, ContextManager, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

from ...judging import judge, plan
from ...judging.calls import Cause, Failed
from ...judging.inputs import Seed
from ...judging.plan import Options, ShapeTrial
from ...judging.verdict import ShapeVerdict
from ...kernel_files import loading
from ...system import noise
from ..inside.seccomp import ASKING, NEVER
from ..intake.building import BuiltSubmission
from ..rubric import Rubric
from ..sandbox import Box, Layers, Limits
from .caller import SandboxedCaller
from .findings import Finding
from .memory import place
from .notes import Notes
from .samples import Case, Sample, cases
from .session import Session
from .tensors import HostTensors
from .timing import sample, time_calls

_MOST_BROKEN = 2  # number of processes that may break before the remaining cases are skipped


class Turns:
    """A lock for the machine: up to `count` submissions run at a time, to be checked, or one, to be timed."""

    def __init__(self, count: int):
        self.count = count
        self._free, self._next = threading.Semaphore(count), threading.Lock()

    def beside(self) -> ContextManager[None]:
        return self._taken(1)

    def alone(self) -> ContextManager[None]:
        return self._taken(self.count)

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
    layers: Layers
    gpu: Optional[Any] = None  # a `device.Gpu`; None on the CPU


class Observed(NamedTuple):
    samples: Tuple[Sample, ...]
    findings: Tuple[Finding, ...]
    layers: Dict[str, Any]  # layers of the sandbox, as the worker reported them before it loaded the submission
    printed: str  # the beginning of what the submission printed
    fill_ms: Dict[str, float]  # by case, the shortest time in which the referee filled the output
    load: Optional[float] = None  # see `system.noise.load`; None without timed calls


class Referee:
    """Judges one built submission by a rubric, whose backend is "cpu" or "gpu". Several submissions share `turns`."""

    def __init__(
        self, plugin: BuiltSubmission, rubric: Rubric, seed: Seed, machine: Machine, turns: Optional[Turns] = None
    ):
        self._plugin, self._rubric, self._seed, self._machine = plugin, rubric, seed, machine
        self._turns = turns or Turns(1)
        self._tensors: Any = None  # set only during `observe`
        self._begin()

    def _begin(self) -> None:
        self._notes = Notes(self._rubric)
        self._layers: Dict[str, Any] = {}
        self._printed = ""
        self._run = 0
        self._broken = 0

    def observe(self) -> Observed:
        right, to_time = self._cases("right"), self._cases("time")
        with self._turns.beside(), self._made(right):
            self._check(right)
        if self._notes.refused and self._turns.count > 1:  # try again alone, in case other submissions caused it
            self._begin()
            with self._turns.alone(), self._made(right):
                self._check(right)
        load = None
        if to_time and not self._notes.refused:
            with self._turns.alone(), self._made(to_time):
                load = self._time(to_time)
        notes = self._notes
        fill = {case.words: 1e3 * seconds for case, seconds in notes.fill.items()}
        return Observed(tuple(notes.samples), tuple(notes.findings), self._layers, self._printed, fill, load)

    def _cases(self, kind: str) -> List[Case]:
        checks = [check for check in self._rubric.checks_of(self._rubric.backend) if check.kind == kind]
        counts = sorted({n for check in checks for n in check.n})
        return cases(self._rubric.edition, counts, self._rubric.layers)

    @contextlib.contextmanager
    def _made(self, asked: Sequence[Case]) -> Iterator[None]:
        """Return a context in which `_tensors` holds tensors for these cases, in the memory that the format uses."""
        gpu = self._machine.gpu if self._rubric.backend == "gpu" else None
        # Probes may have more images than a case.
        places = [place(case.shape._replace(B=max(case.shape.B, plan.most_probed(case.shape)))) for case in asked]
        if not places:
            yield
            return
        if gpu is not None and not self._plugin.host_memory:
            self._tensors = gpu.tensors(places, gpu.lag(self._machine))
        else:
            few = [place(case.shape._replace(B=self._few(case))) for case in asked]
            largest = max(*(lie.end for lie in places), *(2 * lie.end for lie in few))
            self._tensors = HostTensors(largest, gpu is not None)
        try:
            yield
        finally:
            self._tensors.close()

    def _time(self, to_time: Sequence[Case]) -> Optional[float]:
        """Time the cases, again if the times of one are not steady; return the load of the last timing."""
        start = noise.used()
        self._time_once(to_time)
        if not (self._notes.refused or self._steady(to_time, noise.LIMIT)):
            known = Counter(one.case for one in self._notes.samples if one.timed)
            # A single time still counts beside the new ones, because it shows no spread.
            self._notes.samples = [one._replace(timed=one.timed and known[one.case] < 2) for one in self._notes.samples]
            start = noise.used()
            self._time_once(to_time)
        return noise.load(start)

    def _time_once(self, to_time: Sequence[Case]) -> None:
        """Time the cases in new processes until the spread of the times is small, or the time limit is reached."""
        timing = self._rubric.timing
        start, runs = time.monotonic(), 0
        while not self._notes.refused:
            used = time.monotonic() - start
            few = runs < timing.runs and used < 2 * timing.seconds
            if not few and (used > timing.seconds or self._steady(to_time, timing.spread)):
                return
            runs += 1
            self._run_timed(to_time, start + timing.seconds)

    def _steady(self, to_time: Sequence[Case], most: float) -> bool:
        timed = [sample for sample in self._notes.samples if sample.timed]
        values = [[sample.op_seconds for sample in timed if sample.case == case] for case in to_time]
        return all(noise.steady(seconds, most) for seconds in values)

    def _check(self, todo: Sequence[Case]) -> None:
        """Check cases one after another in a process; after an incorrect one, the others get a new process."""
        waiting = list(self._seed.stream(self._run, 0).shuffled(todo))
        while waiting and self._broken < _MOST_BROKEN:
            again: List[Tuple[Case, ShapeVerdict]] = []
            self._one_run(waiting, functools.partial(self._check_case, set(), again))
            for case, found in again:
                self._check_again(case, found)

    def _check_case(
        self, layers: Set[int], again: List[Tuple[Case, ShapeVerdict]], caller: SandboxedCaller, case: Case
    ) -> bool:
        """Check a case in a process that has run some layers; return whether it is correct, else add it to `again`."""
        found, others = self._judged(caller, case), layers - {case.layer}
        layers.add(case.layer)
        if not found.right and not caller.broken and (others or self._thousands(case)):
            again.append((case, found))
        else:
            self._note(caller, case, found)
        return found.right

    def _check_again(self, case: Case, found: ShapeVerdict) -> None:
        """Check an incorrect case alone in a process, or with 1,000 images per call as its format may need."""
        thousands = self._thousands(case)

        def check(caller: SandboxedCaller, case: Case) -> bool:
            alone = self._judged(caller, case, thousands)
            if not thousands and alone.right:
                alone = found._replace(cause=Cause("other_layers"))
            self._note(caller, case, found if thousands and not alone.right else alone)
            return False

        self._one_run([case], check)

    def _judged(self, caller: SandboxedCaller, case: Case, thousands: bool = False) -> ShapeVerdict:
        few, count = self._few(case), case.shape.B
        options = Options(few, count if count > few else 0, judge.RACES)
        if thousands:
            options = Options(loading.TRIAL_IMAGES, count, judge.RACES, thousand=True, one_first=False)
        stream = self._seed.stream(self._run, case.layer, count, 2)
        return ShapeTrial(caller, case.words, case.shape, stream, options).verdict()

    def _few(self, case: Case) -> int:
        return min(judge.few_images(self._plugin.parallel), case.shape.B)

    def _thousands(self, case: Case) -> bool:
        multiple = case.shape.B % loading.TRIAL_IMAGES == 0
        return self._plugin.thousands and multiple and self._rubric.backend == "gpu"

    def _note(self, caller: SandboxedCaller, case: Case, found: ShapeVerdict) -> None:
        notes = self._notes
        self._broken += caller.broken
        if caller.last is not None:
            notes.samples.append(sample(caller, case, self._run, 1, False, caller.last, found.precision))
        if found.cause:
            notes.found(found.cause, case, found.example)
        else:
            notes.precision(case, found.precision)
        for cause in found.notes:
            notes.found(cause, case)

    def _run_timed(self, todo: Sequence[Case], until: float) -> None:
        waiting = list(self._seed.stream(self._run, 0).shuffled(todo))

        def timed(caller: SandboxedCaller, case: Case) -> bool:
            time_calls(caller, self._notes, case, self._seed, self._run, self._rubric.timing.calls, until)
            return True

        while waiting and self._broken < _MOST_BROKEN:
            self._one_run(waiting, timed)

    def _one_run(self, waiting: List[Case], work: Callable[[SandboxedCaller, Case], bool]) -> None:
        """Take cases from a list and run them in a new process, until `work` returns False or the process breaks."""
        self._run += 1
        case: Optional[Case] = None
        try:
            with self._session() as session:
                self._layers = session.layers
                try:
                    zeroed = session.load(self._plugin, self._rubric.backend == "gpu", self._tensors.shared.device)
                    if self._plugin.zeroed is not None:  # else only the library says
                        zeroed = self._plugin.zeroed
                    going = True
                    while waiting and going:
                        case = waiting.pop(0)
                        guards = self._seed.stream(self._run, case.layer, case.shape.B, 1)
                        caller = SandboxedCaller(
                            session, self._tensors, self._plugin, self._notes, case, zeroed, guards
                        )
                        going = work(caller, case)
                finally:
                    self._printed = self._printed or session.printed
        except Failed as error:
            # A process that breaks while it loads the submission would break again: do not retry.
            self._broken = _MOST_BROKEN if case is None else self._broken + 1
            self._notes.found(Cause(error.code, error.details), case)

    def _session(self) -> Session:
        limits, gpu, plugin = self._rubric.limits, self._machine.gpu, self._plugin
        memory, disk = int(limits.memory_mib * 2**20), int(limits.disk_mib * 2**20)
        box = Box(
            Limits(limits.seconds, memory, disk, int(limits.printed_kib * 2**10), int(limits.threads)),
            read=(str(plugin.path), *plugin.read),
            processes=ASKING if plugin.kind == "python" else NEVER,
        )
        if self._rubric.backend == "gpu" and gpu is not None:
            box = gpu.shown(box)
        self._tensors.clear()
        return Session(box, self._machine.layers, self._tensors.shared, plugin.packages)
