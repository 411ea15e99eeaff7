"""The road of `fashion-infer grade`: submissions are staged, built and checked side by side, and timed one by one."""

import os
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

from ..errors import DeviceError, FashionInferError, UsageError
from ..system import cache_limits
from . import marks, verdict
from .intake import building, submission
from .intake.archives import Refused
from .intake.building import BuiltSubmission
from .intake.submission import Submission
from .referee import Machine, Observed, Referee, Turns
from .referee.findings import Finding, plain
from .referee.inputs import Seed
from .rubric import Rubric
from .sandbox import end_all, required
from .verdict import GradeVerdict

_NOTHING = Observed((), (), {}, "", {})


class GradeRequest(NamedTuple):
    """Request to grade submissions.

    Attributes
    ----------
    sources
        Files, folders and archives.
    rubric
        What each is graded by.
    format, file
        To insist on a format, or on the kernel file's path in a folder or an archive.
    device
        Index of the GPU.
    unsandboxed
        Go on without a sandbox.
    seed
        None for a fresh one for each submission.
    digest
        What a single source must have; None for anything.
    """

    sources: Tuple[str, ...]
    rubric: Rubric
    format: Optional[str] = None
    file: Optional[str] = None
    device: int = 0
    unsandboxed: bool = False
    seed: Optional[Seed] = None
    digest: Optional[str] = None


def grade(request: GradeRequest, progress: Callable[[str], None] = lambda line: None) -> Iterator[GradeVerdict]:
    """Judge submissions.

    Parameters
    ----------
    request
        What is asked.
    progress
        Called with a line for each step.

    Yields
    ------
    GradeVerdict
        One a source, in their order.

    Raises
    ------
    UsageError
        When a source does not exist.
    DeviceError
        When this machine has no sandbox.
    """
    paths = [submission.check(source) for source in request.sources]
    machine = Machine(required(request.unsandboxed), request.unsandboxed)
    return _judged(request, paths, machine, cache_limits.made_folder(cache_limits.GRADED), progress)


def identities(request: GradeRequest) -> Dict[str, Tuple[str, str, str]]:
    """Digest, kernel file and format of each source that can be read, as it is now; raises as `grade` does."""
    paths = [submission.check(source) for source in request.sources]
    machine = Machine(required(request.unsandboxed), request.unsandboxed)
    room = cache_limits.made_folder(cache_limits.GRADED)

    def of(path: Path) -> Optional[Tuple[str, str, str]]:
        try:
            return _identity(_staged(request, path, machine, room))
        except Exception:  # `grade` says it in a verdict
            return None

    with ThreadPoolExecutor(_at_once()) as pool:
        found = zip(request.sources, pool.map(of, paths))
    return {source: identity for source, identity in found if identity is not None}


def _identity(staged: Submission) -> Tuple[str, str, str]:
    kernel = staged.kernel
    return staged.digest, kernel.path.relative_to(staged.folder).as_posix(), kernel.format.name


def _at_once() -> int:
    """How many submissions are looked at side by side."""
    return max(1, len(os.sched_getaffinity(0)) // 2)


class _Ready(NamedTuple):
    """A submission that is built, or why it is not."""

    submission: Optional[Submission]
    plugin: Optional[BuiltSubmission]
    refused: str
    failed: str


def _judged(request, paths: Sequence[Path], machine: Machine, room: Path, progress) -> Iterator[GradeVerdict]:
    count = _at_once()
    threads: Set[int] = set()
    futures: List[Future] = []
    turns, pace = Turns(min(count, len(paths))), _Pace(len(paths), progress)

    def later(*what) -> Future:
        futures.append(pool.submit(*what))
        return futures[-1]

    with ThreadPoolExecutor(count, initializer=lambda: threads.add(threading.get_ident())) as pool:
        try:
            waiting = [later(_prepared, request, path, machine, room) for path in paths]
            beside: Dict[int, Future] = {}
            if request.rubric.backend != "gpu":  # on the CPU a compiler beside a measurement would be part of it
                all_ready = [future.result() for future in waiting]
                pace.start()
                if turns.count > 1:
                    beside = {
                        number: later(_in_turn, request, paths[number], ready, machine, turns, pace)
                        for number, ready in enumerate(all_ready) if not _on_gpu(request, ready)
                    }  # fmt: skip
            ill: Optional[str] = None
            for number, (path, future) in enumerate(zip(paths, waiting)):
                ready = future.result()
                if number in beside:
                    yield beside[number].result()
                    continue
                on_gpu = _on_gpu(request, ready)
                if on_gpu and ill is None and machine.gpu is None:
                    ready, machine = _with_gpu(request, ready, machine)
                if on_gpu and ill is not None:
                    ready = ready._replace(plugin=None, failed=ill)
                with turns.alone():
                    found = _in_turn(request, path, ready, machine, None, pace)
                yield found
                if on_gpu and ill is None and machine.gpu is not None:
                    reason = machine.gpu.ill()
                    ill = f"the GPU is not well since {path} ran: {reason}" if reason else None
        finally:  # submissions that still run would hold up an interrupted command
            for future in futures:
                future.cancel()
            while any(future.running() for future in futures):
                end_all(threads)
                time.sleep(0.02)


class _Pace:
    """Which of several submissions it is, and how long all of them will take at the pace of those before."""

    def __init__(self, count: int, progress: Callable[[str], None]):
        self._count, self._progress = count, progress
        self._begun = self._done = 0
        self.start()

    def start(self) -> None:
        """Count the time from here on."""
        self._start = time.monotonic()

    def begin(self, path: Path) -> None:
        """Say that one begins."""
        self._begun += 1
        left = ""
        if self._count > 1:
            seconds = (time.monotonic() - self._start) / max(1, self._done) * (self._count - self._done)
            left = f" ({self._begun} of {self._count}" + (
                f", about {seconds / 60:.0f} min left)" if self._done else ")"
            )
        self._progress(f"judging {path}{left}")

    def end(self) -> None:
        """Count one that is judged."""
        self._done += 1


def _in_turn(request, path: Path, ready: "_Ready", machine: Machine, turns: Optional[Turns], pace: _Pace):
    pace.begin(path)
    try:
        return _bounded(request, path, ready, machine, turns)
    finally:
        pace.end()


def _on_gpu(request: GradeRequest, ready: "_Ready") -> bool:
    return ready.plugin is not None and _backend(request.rubric, ready.submission) == "gpu"


def _with_gpu(request: GradeRequest, ready: "_Ready", machine: Machine) -> Tuple["_Ready", Machine]:
    """The machine with its GPU, or the reason why there is none."""
    from .device import Gpu

    try:
        return ready, machine._replace(gpu=Gpu(request.device))
    except DeviceError as error:
        return ready._replace(plugin=None, failed=str(error)), machine


def _staged(request: GradeRequest, path: Path, machine: Machine, room: Path) -> Submission:
    backend = None if request.rubric.backend == "auto" else request.rubric.backend
    return submission.stage(path, room, request.format, backend, request.file, machine.layers, machine.unsandboxed)


def _prepared(request: GradeRequest, path: Path, machine: Machine, room: Path) -> _Ready:
    staged = None
    try:
        staged = _staged(request, path, machine, room)
        if request.digest is not None and staged.digest != request.digest:
            raise UsageError(f"{path} is not the submission of the verdict: its SHA-256 is {staged.digest}")
        where = _backend(request.rubric, staged)
        plugin = building.build(staged, machine.layers, request.rubric.limits, where, machine.unsandboxed)
        return _Ready(staged, plugin, "", "")
    except Refused as error:
        return _Ready(staged, None, plain(str(error)), "")
    except DeviceError as error:
        return _Ready(staged, None, "", str(error))
    except UsageError:
        raise  # a mistake of the command, such as another digest
    except Exception as error:
        return _Ready(staged, None, "", _unexpected(error))


def _bounded(
    request: GradeRequest, path: Path, ready: _Ready, machine: Machine, turns: Optional[Turns]
) -> GradeVerdict:
    """The boundary around a submission: whatever happens within becomes its verdict, and the next one is judged."""
    try:
        found = _verdict(request, path, ready, machine, turns)
        verdict.as_json(found)  # ValueError for a number that is none
        return found
    except Exception as error:
        return _verdict(request, path, _Ready(ready.submission, None, "", _unexpected(error)), machine, turns)


def _unexpected(error: Exception) -> str:
    words = plain(" ".join(f"{type(error).__name__}: {error}".split())[:300])
    return f"the grader ended in judging it, by {words}"


def _verdict(
    request: GradeRequest, path: Path, ready: _Ready, machine: Machine, turns: Optional[Turns]
) -> GradeVerdict:
    start = time.monotonic()
    staged = ready.submission
    seed = request.seed or Seed.fresh()
    backend = _backend(request.rubric, staged)
    rubric = request.rubric._replace(backend=backend)
    observed, status, reason = _NOTHING, verdict.JUDGED, ""
    if ready.plugin is None:
        status, reason = (verdict.REFUSED, ready.refused) if ready.refused else (verdict.FAILED, ready.failed)
        earned = marks.nothing(rubric, backend)
    else:
        try:
            observed = Referee(ready.plugin, rubric, seed, machine, turns).observe()
            earned = marks.of(rubric, observed)
        except FashionInferError as error:
            status, reason = verdict.FAILED, str(error)
            earned = marks.nothing(rubric, backend)
    findings: Tuple[Finding, ...] = observed.findings
    ranked = status == verdict.JUDGED and not machine.unsandboxed and not marks.refusals(findings)
    return GradeVerdict(
        os.fsencode(path.resolve().name).decode(errors="replace"), str(path), status, reason,
        *(_identity(staged) if staged else ("", "", "")), backend, rubric, seed, ranked,
        {"available": machine.layers.words, "in_force": observed.layers, "bubblewrap": bool(machine.layers.bubblewrap)},
        findings, earned, observed.samples, observed.fill_ms, observed.printed,
        ready.plugin.seconds if ready.plugin else 0.0, time.monotonic() - start,
        {**verdict.processor(), **(machine.gpu.described() if backend == "gpu" and machine.gpu else {})}, verdict.now(),
    )  # fmt: skip


def _backend(rubric: Rubric, staged: Optional[Submission]) -> str:
    """Where it runs: what the rubric says, else what the format does."""
    if rubric.backend != "auto":
        return rubric.backend
    said = staged.kernel.backend if staged else "any"
    return "cpu" if said == "any" else said
