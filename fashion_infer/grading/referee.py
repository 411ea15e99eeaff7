"""The referee: calls a submission in its sandbox, and believes nothing but its own clock and its own eyes.

A run is a fresh process, which gets all cases in a random order. The first runs ask whether outputs are right, for every
number of images; the later ones are timed. Every call of either has fresh inputs and a poisoned output, and is looked at
whole.
"""

import time
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

from . import inputs, memory
from .building import Plugin
from .findings import Finding
from .inputs import Seed
from .memory import Memory, place
from .rubric import Rubric
from .samples import Case, Sample, cases, spread
from .sandbox import Box, Broken, Layers, Limits
from .scrutiny import scrutinise
from .session import Called, Session

_CALLS = 2  # of each case in the runs that are not timed: what is kept from one call shows in the next
_SLOW = 0.5  # seconds: what a first call costs once is no part worth leaving out of a longer one
_FLOOR = 0.5  # of the time that the referee took to write as many bytes: no kernel writes its output faster
_FLOOR_BYTES = 32 << 20  # below that outputs stay in caches
_DISAGREE, _LATENCY = 0.2, 0.02  # share, and seconds, by which two honest clocks differ at most
_LEFTOVER = 0.05, 1.0  # seconds that a wrong submission is given to go on: what changes then is work after the clock
_MOST_BROKEN = 2  # runs that may break before the rest is left


class Machine(NamedTuple):
    """Where and within what submissions run."""

    layers: Layers
    unsandboxed: bool = False


class Observed(NamedTuple):
    """All that a referee has seen of a submission."""

    samples: Tuple[Sample, ...]
    findings: Tuple[Finding, ...]
    layers: Dict  # of the sandbox that the worker reported, before the submission was there
    printed: str
    fill_ms: Dict[str, float]  # by case, the fastest that the referee wrote as many bytes


class Referee:
    """Judges one submission.

    Parameters
    ----------
    plugin
        What was built.
    rubric
        What is asked.
    seed
        The secret.
    machine
        Where.
    """

    def __init__(self, plugin: Plugin, rubric: Rubric, seed: Seed, machine: Machine):
        self._plugin, self._rubric, self._seed, self._machine = plugin, rubric, seed, machine
        self._samples: List[Sample] = []
        self._findings: List[Finding] = []
        self._fill: Dict[Case, float] = {}
        self._layers: Dict = {}
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
        backend = self._rubric.backend
        asked = [check for check in self._rubric.checks_of(backend) if check.kind != "build"]
        counts = sorted({n for check in asked if check.kind == "right" for n in check.n})
        timed = sorted({n for check in asked if check.kind == "time" for n in check.n})
        right, to_time = cases(self._rubric.edition, counts), cases(self._rubric.edition, timed)
        largest = max((place(case.shape).end for case in [*right, *to_time]), default=0)
        if not largest:
            return self._observed()
        self._memory = Memory(largest)
        try:
            if right:
                self._one_run(right, _CALLS, None)
            if to_time and not self._refused:
                self._time(to_time)
        finally:
            self._memory.close()
        return self._observed()

    def _observed(self) -> Observed:
        fill = {case.words: 1e3 * seconds for case, seconds in self._fill.items()}
        return Observed(tuple(self._samples), tuple(self._findings), self._layers, self._printed, fill)

    @property
    def _refused(self) -> bool:
        return any(finding.follows == "refused" for finding in self._findings)

    def _time(self, to_time: Sequence[Case]) -> None:
        """Fresh processes until the spread is small, or the time is up."""
        timing = self._rubric.timing
        start, runs = time.monotonic(), 0
        while not self._refused:
            used = time.monotonic() - start
            few = runs < timing.runs and used < 2 * timing.seconds
            if not few and (used > timing.seconds or self._steady(to_time)):
                return
            runs += 1
            self._one_run(to_time, timing.calls, start + timing.seconds)

    def _steady(self, to_time: Sequence[Case]) -> bool:
        values = [[s.op_seconds for s in self._samples if s.case == case and s.timed] for case in to_time]
        return all(spread(seconds) <= self._rubric.timing.spread for seconds in values)

    def _one_run(self, todo: Sequence[Case], calls: int, until: Optional[float]) -> None:
        """One fresh process; again a fresh one for what is left when it breaks. `until` is set where calls are timed."""
        waiting = list(inputs.shuffled(self._seed.generator(self._run, 0), todo))
        while waiting and self._broken < _MOST_BROKEN:
            self._run += 1
            case: Optional[Case] = None
            try:
                with self._session() as session:
                    self._layers = session.layers
                    try:
                        said = session.load(self._plugin, self._rubric.backend == "gpu")
                        while waiting:
                            case = waiting.pop(0)
                            self._calls(session, case, calls, until, bool(said["zero_output"]))
                    finally:
                        self._printed = self._printed or session.printed
            except Broken as error:
                self._broken += 1
                if case is None:  # in loading: it would again
                    self._broken = _MOST_BROKEN
                self._findings.append(Finding("broken", case.words if case else "", str(error)))

    def _session(self) -> Session:
        limits = self._rubric.limits
        box = Box(
            Limits(limits.seconds, limits.memory, limits.disk, limits.printed, limits.threads),
            read=(str(self._plugin.path),),
        )
        return Session(box, self._machine.layers, self._memory, self._machine.unsandboxed)

    def _calls(self, session: Session, case: Case, calls: int, until: Optional[float], zeroed: bool) -> None:
        """The calls of one case in one process."""
        lies = place(case.shape)
        guards = [self._memory.zone(guard) for guard in lies.guards]
        pattern = [self._seed.generator(self._run, case.layer, 1).bytes(len(guard)) for guard in guards]
        for guard, data in zip(guards, pattern):
            guard[:] = memoryview(data)
        session.case(case.shape, lies)
        x, k, y = (self._memory.tensor(at, size) for at, size in
                   zip((lies.x, lies.k, lies.y), (case.shape.x, case.shape.k, case.shape.y)))  # fmt: skip
        number = 0
        while True:
            given = inputs.fresh(self._seed.generator(self._run, case.layer, 2, number), case.shape, case.layer == 1)
            x[...], k[...] = given.x, given.k
            self._poison(case, y, zeroed)
            called = session.call(number)
            secret = self._seed.generator(self._run, case.layer, 3, number)
            sample = self._judged(session, case, number, called, given, (x, k, y), secret, until is not None)
            self._samples.append(sample)
            if any(bytes(guard) != data for guard, data in zip(guards, pattern)):
                self._found("guard zones", case, "it wrote outside of the output")
            number += 1
            counted = number - (0 if sample.timed and number == 1 else 1)
            late = until is not None and counted >= 1 and time.monotonic() > until
            if sample.precision == "wrong" or late or (counted if until else number) >= calls:
                return

    def _poison(self, case: Case, y, zeroed: bool) -> None:
        """What must not be left in the output, and how fast this machine writes as much."""
        start = time.perf_counter()
        memory.fill(y, 0.0 if zeroed else float("nan"))
        seconds = time.perf_counter() - start
        self._fill[case] = min(seconds, self._fill.get(case, seconds))

    def _judged(self, session, case: Case, number: int, called: Called, given, tensors, secret, timed: bool) -> Sample:
        """Look at one call."""
        x, k, y = tensors
        if called.status != 0:
            raise Broken(called.message or f"it failed with status {called.status}")
        if not (_same(x, given.x) and _same(k, given.k)):
            self._found("inputs changed", case, "data or weights differ from what they were before the call")
        found = scrutinise(y, given, case.shape, secret)
        said = found.diagnosis.line()
        if not found.right:
            self._wrong(session, case, number, called, y, said)
        elif found.precision != "float32" and self._rubric.precision == "float32":
            self._found("precision", case, f"right in {found.precision} only")
        self._clocks(case, called)
        first = number == 0 and called.seconds < _SLOW
        op = min(called.op_seconds, called.seconds) if called.layer_seconds else called.seconds
        return Sample(
            case, self._run, number, timed and not first, called.seconds, op, called.op_seconds, found.precision, said
        )

    def _wrong(self, session: Session, case: Case, number: int, called: Called, y, said: str) -> None:
        """Say why, as far as it shows."""
        before = _digest(y)
        session.rest(min(max(called.seconds, _LEFTOVER[0]), _LEFTOVER[1]))
        if _digest(y) != before:
            self._found("work after", case, "the output went on changing after the call was done")
        earlier = [sample for sample in self._samples if sample.case.layer == case.layer]
        if any(sample.case == case and sample.precision != "wrong" for sample in earlier):
            self._found(
                "call number", case, f"right in earlier calls, wrong in call {number + 1} of its process: {said}"
            )
        self._found("wrong", case, said)

    def _clocks(self, case: Case, called: Called) -> None:
        bytes_written = 4 * case.shape.y[0] * case.shape.y[1] * case.shape.y[2] * case.shape.y[3]
        floor = _FLOOR * self._fill[case]
        if bytes_written >= _FLOOR_BYTES and called.seconds < floor:
            self._found("too fast", case, f"{1e3 * called.seconds:.3f} ms, less than half of what it takes to write "
                        f"the output, {2e3 * floor:.3f} ms")  # fmt: skip
        own = called.layer_seconds or called.op_seconds
        if abs(own - called.seconds) > _DISAGREE * called.seconds + _LATENCY:
            self._found("clocks", case, f"the submission's process says {1e3 * own:.3f} ms, the referee "
                        f"{1e3 * called.seconds:.3f} ms")  # fmt: skip

    def _found(self, kind: str, case: Case, text: str) -> None:
        if not any((finding.kind, finding.where) == (kind, case.words) for finding in self._findings):
            self._findings.append(Finding(kind, case.words, text))


def _same(a, b) -> bool:
    return bool((a.reshape(-1).view("u4") == b.reshape(-1).view("u4")).all())


def _digest(y) -> int:
    """A number that changes with any element."""
    return sum(memory.in_pieces(y.reshape(-1).view("u4"), lambda piece: int(piece.sum(dtype="u8"))))
