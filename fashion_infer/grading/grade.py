"""The road of `fashion-infer grade`: submissions are staged and built side by side, and judged one after the other."""

import os
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Callable, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from ..errors import DeviceError, FashionInferError, UsageError
from ..system import cache_limits
from . import marks, verdict
from .intake import building, submission
from .intake.archives import Refused
from .intake.building import BuiltSubmission
from .intake.submission import Submission
from .referee import Machine, Observed, Referee
from .referee.findings import Finding, plain
from .referee.inputs import Seed
from .rubric import Rubric
from .sandbox import required
from .verdict import GradeVerdict

_NOTHING = Observed((), (), {}, "", {})


class GradeRequest(NamedTuple):
    """What is asked.

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


class _Ready(NamedTuple):
    """A submission that is built, or why it is not."""

    submission: Optional[Submission]
    plugin: Optional[BuiltSubmission]
    refused: str
    failed: str


def _judged(request, paths: Sequence[Path], machine: Machine, room: Path, progress) -> Iterator[GradeVerdict]:
    workers = max(1, (os.cpu_count() or 2) // 2)
    with ThreadPoolExecutor(workers) as pool:
        waiting: List[Future] = [pool.submit(_prepared, request, path, machine, room) for path in paths]
        if request.rubric.backend != "gpu":  # on the CPU a compiler beside a measurement would be part of it
            for future in waiting:
                future.result()
        ill: Optional[str] = None
        start = time.monotonic()
        for number, (path, future) in enumerate(zip(paths, waiting)):
            ready = future.result()
            progress(f"judging {path}{_left(start, number, len(paths))}")
            on_gpu = ready.plugin is not None and _backend(request.rubric, ready.submission) == "gpu"
            if on_gpu and ill is None and machine.gpu is None:
                ready, machine = _with_gpu(request, ready, machine)
            if on_gpu and ill is not None:
                ready = ready._replace(plugin=None, failed=ill)
            yield _bounded(request, path, ready, machine)
            if on_gpu and ill is None and machine.gpu is not None:
                reason = machine.gpu.ill()
                ill = f"the GPU is not well since {path} ran: {reason}" if reason else None


def _left(start: float, done: int, count: int) -> str:
    """Which of several it is, and how long all of them will take at the pace of those before."""
    if count == 1:
        return ""
    seconds = (time.monotonic() - start) / done * (count - done) if done else 0.0
    return f" ({done + 1} of {count}" + (f", about {seconds / 60:.0f} min left)" if done else ")")


def _with_gpu(request: GradeRequest, ready: "_Ready", machine: Machine) -> Tuple["_Ready", Machine]:
    """The machine with its GPU, or the reason why there is none."""
    from .device import Gpu

    try:
        return ready, machine._replace(gpu=Gpu(request.device))
    except DeviceError as error:
        return ready._replace(plugin=None, failed=str(error)), machine


def _prepared(request: GradeRequest, path: Path, machine: Machine, room: Path) -> _Ready:
    staged = None
    backend = None if request.rubric.backend == "auto" else request.rubric.backend
    try:
        staged = submission.stage(
            path, room, request.format, backend, request.file, machine.layers, machine.unsandboxed
        )
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
        raise  # of the command, as a digest that differs
    except Exception as error:
        return _Ready(staged, None, "", _unexpected(error))


def _bounded(request: GradeRequest, path: Path, ready: _Ready, machine: Machine) -> GradeVerdict:
    """The boundary around a submission: whatever happens within becomes its verdict, and the next one is judged."""
    try:
        found = _verdict(request, path, ready, machine)
        verdict.as_json(found)  # ValueError for a number that is none
        return found
    except Exception as error:
        return _verdict(request, path, _Ready(ready.submission, None, "", _unexpected(error)), machine)


def _unexpected(error: Exception) -> str:
    words = plain(" ".join(f"{type(error).__name__}: {error}".split())[:300])
    return f"the grader ended in judging it, by {words}"


def _verdict(request: GradeRequest, path: Path, ready: _Ready, machine: Machine) -> GradeVerdict:
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
            observed = Referee(ready.plugin, rubric, seed, machine).observe()
            earned = marks.of(rubric, observed)
        except FashionInferError as error:
            status, reason = verdict.FAILED, str(error)
            earned = marks.nothing(rubric, backend)
    findings: Tuple[Finding, ...] = observed.findings
    ranked = status == verdict.JUDGED and not machine.unsandboxed and not marks.refusals(findings)
    return GradeVerdict(
        os.fsencode(path.resolve().name).decode(errors="replace"), str(path), status, reason,
        staged.digest if staged else "",
        staged.kernel.path.relative_to(staged.folder).as_posix() if staged else "",
        staged.kernel.format.name if staged else "", backend, rubric, seed, ranked,
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
