"""Judges submissions for `fashion-infer grade`: builds and checks them in parallel, and times them one by one."""

import contextlib
import math
import os
import shutil
import tempfile
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

from ..errors import DeviceError, FashionInferError, UsageError
from ..judging.inputs import Seed
from ..system import cache_limits
from ..system.files import vanishing
from . import device, marks, verdict
from .intake import building, reading, submission
from .intake.archives import Refused
from .intake.building import BuiltSubmission
from .intake.submission import Submission
from .referee import Machine, Observed, Referee, Turns
from .referee.findings import plain
from .rubric import Rubric
from .sandbox import end_all, required
from .verdict import GradeVerdict

_NOTHING = Observed((), (), {}, "", {})


class GradeRequest(NamedTuple):
    sources: Tuple[str, ...]
    rubric: Rubric
    format: Optional[str] = None
    file: Optional[str] = None
    device: int = 0
    unsandboxed: bool = False
    seed: Optional[Seed] = None
    digest: Optional[str] = None
    others: Tuple[str, ...] = ()  # further submissions, which were judged before


def grade(request: GradeRequest, progress: Callable[[str], None] = lambda line: None) -> Iterator[GradeVerdict]:
    """Judge submissions, and yield one verdict per source, in their order; call `progress` with lines of text.
    UsageError if a source does not exist; DeviceError if this machine has no sandbox."""
    paths = [submission.check(source) for source in request.sources]
    machine = Machine(required(request.unsandboxed))
    cache_limits.made_folder(cache_limits.GRADED)
    return _judged(request, paths, machine, progress)


def identities(request: GradeRequest) -> Dict[str, Tuple[str, str, str]]:
    """Return the current digest, kernel file and format of each source that can be read, by source. Errors are as in
    `grade`."""
    paths = [submission.check(source) for source in request.sources]
    machine = Machine(required(request.unsandboxed))

    def of(path: Path) -> Optional[Tuple[str, str, str]]:
        try:
            with _room() as room:
                return _identity(_staged(request, path, machine, Path(room)))
        except Exception:  # `grade` reports the error in a verdict
            return None

    with ThreadPoolExecutor(_at_once()) as pool:
        found = list(zip(request.sources, pool.map(of, paths)))
    return {source: identity for source, identity in found if identity is not None}


def _room():
    place = cache_limits.made_folder(cache_limits.GRADED)
    return vanishing(lambda: tempfile.mkdtemp(dir=place, prefix="stage-"))


def _identity(staged: Submission) -> Tuple[str, str, str]:
    kernel = staged.kernel
    return staged.digest, kernel.path.relative_to(staged.folder).as_posix(), kernel.format.name


def _at_once() -> int:
    return max(1, len(os.sched_getaffinity(0)) // 2)


class _Ready(NamedTuple):
    submission: Optional[Submission]  # None if it could not be read
    plugin: Optional[BuiltSubmission]  # None if it could not be built
    status: str = verdict.JUDGED  # or REFUSED if the submission is the cause, FAILED if this machine is
    reason: str = ""  # reason why it could not be built
    # What the compiler says about the submission, if the rubric has `explain = true`: findings for JSON.
    explained: Tuple[Dict[str, Any], ...] = ()


def _judged(request, paths: Sequence[Path], machine: Machine, progress) -> Iterator[GradeVerdict]:
    count = _at_once()
    threads: Set[int] = set()
    futures: List[Future] = []
    turns, pace = Turns(min(count, len(paths))), _GradeProgress(len(paths), progress)

    def later(*what) -> Future:
        futures.append(pool.submit(*what))
        return futures[-1]

    def judged(number: int, ready: _Ready, machine: Machine, turns: Optional[Turns]) -> GradeVerdict:
        try:
            with pace.judging(paths[number]):
                return _safely(request, paths[number], ready, machine, turns)
        finally:
            shutil.rmtree(rooms[number], ignore_errors=True)

    with _room() as room, ThreadPoolExecutor(count, initializer=lambda: threads.add(threading.get_ident())) as pool:
        rooms = [Path(room) / str(number) for number, _ in enumerate(paths)]
        try:
            waiting = [later(_prepared, request, path, machine, own) for path, own in zip(paths, rooms)]
            beside: Dict[int, Future] = {}
            # If a submission may run on the CPU, wait for all builds, because a compiler would affect its times.
            if request.rubric.backend != "gpu":
                all_ready = [future.result() for future in waiting]
                pace.start = time.monotonic()
                if turns.count > 1:
                    beside = {
                        number: later(judged, number, ready, machine, turns)
                        for number, ready in enumerate(all_ready)
                        if not _on_gpu(request, ready)
                    }
            ill: Optional[str] = None
            for number, (path, future) in enumerate(zip(paths, waiting)):
                ready = future.result()
                if number in beside:
                    yield beside[number].result()
                    continue
                on_gpu = _on_gpu(request, ready)
                if on_gpu and ill is None and machine.gpu is None:
                    try:
                        machine = machine._replace(gpu=device.Gpu(request.device))
                    except DeviceError as error:
                        ready = _Ready(ready.submission, None, verdict.FAILED, str(error))
                if on_gpu and ill is not None:
                    ready = _Ready(ready.submission, None, verdict.FAILED, ill)
                with turns.alone():
                    found = judged(number, ready, machine, None)
                yield found
                if on_gpu and ill is None and machine.gpu is not None:
                    reason = machine.gpu.ill()
                    ill = f"the GPU does not work properly since {path} ran: {reason}" if reason else None
        finally:  # end submissions that still run, because an interrupted command would wait for them
            for future in futures:
                future.cancel()
            while any(future.running() for future in futures):
                end_all(threads)
                time.sleep(0.02)


class _GradeProgress:
    def __init__(self, count: int, progress: Callable[[str], None]):
        self._count, self._progress = count, progress
        self._begun = self._done = 0
        self.start = time.monotonic()  # when the first submission is judged

    @contextlib.contextmanager
    def judging(self, path: Path) -> Iterator[None]:
        self._begun += 1
        left = ""
        if self._count > 1:
            seconds = (time.monotonic() - self.start) / max(1, self._done) * (self._count - self._done)
            about = f", about {math.ceil(seconds / 60)} min left" if self._done else ""
            left = f" ({self._begun} of {self._count}{about})"
        self._progress(f"judging {path}{left}")
        try:
            yield
        finally:
            self._done += 1


def _on_gpu(request: GradeRequest, ready: "_Ready") -> bool:
    return ready.plugin is not None and _backend(request.rubric, ready.submission) == "gpu"


def _staged(request: GradeRequest, path: Path, machine: Machine, room: Path) -> Submission:
    backend = None if request.rubric.backend == "auto" else request.rubric.backend
    wanted, own = reading.Wanted(request.format, backend, request.file), path.resolve()
    staged = submission.stage(path, room, wanted, machine.layers)
    if path.name in staged.files:  # a single file, with the files beside it that it includes
        files = [own.parent / name for name in staged.files]
        beside = {place for file in files for place in (file, *file.parents)} - {own, *own.parents}
        for other in beside.intersection(Path(source).resolve() for source in (*request.sources, *request.others)):
            try:
                with _room() as spare:
                    submission.stage(other, Path(spare), wanted, machine.layers)
            except Refused:  # it has no kernel, as the source of a helper
                continue
            raise Refused(f"it includes another submission, {other.name}")
    return staged


def _prepared(request: GradeRequest, path: Path, machine: Machine, room: Path) -> _Ready:
    staged = None
    try:
        with cache_limits.writing(room):
            room.mkdir()
        staged = _staged(request, path, machine, room)
        if request.digest is not None and staged.digest != request.digest:
            raise UsageError(f"{path} is not the submission of the verdict: its SHA-256 is {staged.digest}")
        where = _backend(request.rubric, staged)
        plugin = building.build(staged, machine.layers, request.rubric.limits, where)
        explained: Tuple[Dict[str, Any], ...] = ()
        if request.rubric.show.explain:
            explained = building.explain(staged, machine.layers, request.rubric.limits)
        return _Ready(staged, plugin, explained=explained)
    except Refused as error:
        return _Ready(staged, None, verdict.REFUSED, plain(str(error)))
    except DeviceError as error:
        return _Ready(staged, None, verdict.FAILED, str(error))
    except UsageError:
        raise  # a mistake of the user, such as a digest that does not match
    except Exception as error:
        return _Ready(staged, None, verdict.FAILED, _unexpected(error))


def _safely(request: GradeRequest, path: Path, ready: _Ready, machine: Machine, turns: Optional[Turns]) -> GradeVerdict:
    """Judge a submission. An unexpected error becomes its verdict, so that the other submissions are still judged."""
    try:
        found = _judge(request, path, ready, machine, turns)
        verdict.as_json(found)  # raises ValueError for NaN and infinity
        return found
    except Exception as error:
        return _judge(request, path, _Ready(ready.submission, None, verdict.FAILED, _unexpected(error)), machine, turns)


def _unexpected(error: Exception) -> str:
    return plain(f"the grader failed while it judged the submission: {type(error).__name__}: {error}")


def _judge(request: GradeRequest, path: Path, ready: _Ready, machine: Machine, turns: Optional[Turns]) -> GradeVerdict:
    start = time.monotonic()
    staged = ready.submission
    seed = request.seed or Seed.fresh()
    backend = _backend(request.rubric, staged)
    rubric = request.rubric._replace(backend=backend)
    observed, earned, status, reason = _NOTHING, marks.nothing(rubric), ready.status, ready.reason
    if ready.plugin is not None:
        try:
            observed = Referee(ready.plugin, rubric, seed, machine, turns).observe()
            earned = marks.of(rubric, observed)
        except FashionInferError as error:
            status, reason = verdict.FAILED, str(error)
    correct = status == verdict.JUDGED and not marks.refusals(observed.findings)
    lacking = machine.layers.lacking(observed.layers) if observed.layers else []
    return GradeVerdict(
        os.fsencode(path.resolve().name).decode(errors="replace"),
        str(path),
        status,
        reason,
        *(_identity(staged) if staged else ("", "", "")),
        backend,
        rubric,
        seed,
        correct and not lacking and bool(observed.layers),
        {
            "available": machine.layers.words,
            "in_force": observed.layers,
            "bubblewrap": bool(machine.layers.bubblewrap),
            "lacking": lacking,
        },
        observed.findings,
        earned,
        observed.samples,
        observed.fill_ms,
        observed.printed,
        ready.plugin.seconds if ready.plugin else 0.0,
        time.monotonic() - start,
        {**verdict.processor(), **(machine.gpu.described() if backend == "gpu" and machine.gpu else {})},
        verdict.now(),
        ready.explained if correct else (),
        observed.load,
    )


def _backend(rubric: Rubric, staged: Optional[Submission]) -> str:
    if rubric.backend != "auto":
        return rubric.backend
    said = staged.kernel.backend if staged else "any"
    return "cpu" if said == "any" else said
