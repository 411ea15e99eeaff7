"""The protocol of every benchmark: check each contender of each case, time the contenders in turns, compare the times.

A subclass of `Benchmark` defines the cases and our contenders.
"""

import functools
from dataclasses import dataclass
from typing import Any, Callable, ClassVar, Dict, List, Optional, Sequence, Type, Union

from ..errors import DeviceError
from ..library import bindings
from ..system import noise
from . import peers as others
from . import request as requests
from .machines import open_machine
from .records import PEER, BenchCase, BenchResult, LogitsCheck, Measurement
from .request import BenchRequest
from .timing import Contender, interleaved, summaries

Shown = Callable[[Union[BenchCase, LogitsCheck]], None]
Tick = Callable[[float, str], None]


@dataclass
class Trial:
    """A prepared case: its limits and our contenders, checked and ready to be timed."""

    work: Any  # the machine's object for the case; its `clock` measures times, its `peers` creates contenders
    timed: List[Contender]  # contenders to time
    moved: Dict[str, int]  # key: name of a limit; value: number of bytes that it moves


class Benchmark:
    """One kind of benchmark. Subclasses define `cases` and `prepare`; the other methods have defaults."""

    name: ClassVar[str]  # NAME of the command `bench NAME`
    peers: ClassVar[Sequence[others.Peer]]  # peers that this benchmark knows
    result_type: ClassVar[Type[BenchResult]] = BenchResult

    def __init__(self, request: BenchRequest):
        self.request = request
        self.machine: Any = None
        self.result: Any = None
        self.missing: Dict[str, str] = {}  # key: a peer; value: why it is not compared
        self._present: List[str] = []  # names of the peers that are compared
        self._shown: Shown = lambda done: None

    def check(self) -> None:
        """Check the request before a device is opened; raise UsageError, or DataError for an invalid kernel file."""

    def cases(self) -> List[BenchCase]:
        """Return all cases, still without rows; raise DeviceError for a case that does not fit in memory."""
        raise NotImplementedError

    def prepare(self, case: BenchCase, index: int) -> Optional[Trial]:
        """Add rows of limits and of our contenders to a case; return the limits and the correct contenders, or None."""
        raise NotImplementedError

    def judge_peer(self, case: BenchCase, row: Measurement, contender: Contender, output: Any) -> None:
        """Record a peer's error against float64 in its row."""

    def repeat(self, case: BenchCase, trial: Trial) -> int:
        return self.request.repeat or 1

    def options(self) -> Dict[str, Any]:
        return {}

    def measure(self, shown: Shown = lambda done: None, tick: Tick = lambda share, what: None) -> Any:
        """Check and time every contender of every case, in milliseconds; incorrect ones are in the result's `wrong`.

        `shown` is called with each completed check of logits and each completed case, `tick` with the fraction of the
        work that is done and the current work.
        """
        self.check()
        request = self.request
        asked = requests.peer_names(request.against, others.names(self.peers))
        requests.check_numbers(request)
        self.machine = open_machine(request.backend, request.device)
        cases = self.cases()
        self._shown = shown
        peers, self.missing = requests.available(
            asked, self.known_peers(), self.machine.backend, asked=request.against is not None
        )
        self._present = peers
        self.result = self._empty(cases, peers)
        for index, case in enumerate(cases):
            case_tick = functools.partial(_tick, tick, index, len(cases), case.name)
            case_tick(0.0)
            try:
                done = self._measure(case, index, case_tick)
            except (MemoryError, RuntimeError) as error:
                raise requests.package_error(error, self.machine.backend) from error
            if done:
                self.result.cases.append(case)
                shown(case)
        tick(1.0, "")
        return self.result

    def known_peers(self) -> Dict[str, Callable]:
        return self.machine.convolution_peers

    def record_check(self, check: LogitsCheck) -> None:
        self.result.logits.append(check)
        self._shown(check)

    def _empty(self, cases: List[BenchCase], peers: List[str]) -> BenchResult:
        request = self.request
        identity, versions = self.machine.describe([name for name in peers if others.find(name).package])
        command = requests.command(self.name, request.backend, self.options())
        return self.result_type(
            self.name,
            request.backend,
            identity,
            {"library": bindings.build_info(), **versions},
            command,
            sorted({case.batch for case in cases}),
            request.repeat,
            self.missing,
        )

    def _measure(self, case: BenchCase, index: int, tick: Callable[[float], None]) -> bool:
        trial = self.prepare(case, index)
        if trial is None:
            return False
        tick(0.2)
        self._add_peers(case, trial)
        tick(0.4)
        repeat = self.repeat(case, trial)
        warmup, start = self.request.warmup, noise.used()
        timed = interleaved(trial.work.clock, trial.timed, repeat, lambda share: tick(0.4 + 0.6 * share), warmup)
        times, case.load = summaries(timed), noise.load(start)
        clocks = {contender.name: contender.clock for contender in trial.timed if contender.clock}
        for row in case.rows:
            if row.name in times:
                vars(row).update(times[row.name])
                row.layer_ms = getattr(clocks.get(row.name), "layer_ms", None)
        case.rate(trial.moved)
        return True

    def _add_peers(self, case: BenchCase, trial: Trial) -> None:
        """Run every variant of every peer once, so that its set-up is not timed. Leave out peers that do not run."""
        for name in list(self._present):
            try:
                contenders = trial.work.peers(self.known_peers()[name])
            except (ImportError, DeviceError) as error:
                self.missing[name] = f"{' '.join(str(error).split())} ({case.name})"
                self._present.remove(name)
                continue
            for contender in contenders:
                output = contender.run()
                if contender.name not in (row.name for row in case.rows):
                    row = Measurement(contender.name, PEER)
                    case.rows.append(row)
                    self.judge_peer(case, row, contender, output)
                trial.timed.append(contender)


def _tick(tick: Tick, index: int, cases: int, name: str, share: float) -> None:
    tick((index + share) / cases, name)
