"""All that a report shows, measured in one run."""

import functools
import shlex
import time
from datetime import datetime, timezone
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple, TypeVar

from .. import devices, doctor, pipeline, verification
from ..bench import ceilings, peers
from ..bench.conv import Convolutions
from ..bench.network import BATCHES, Networks
from ..bench.records import BenchResult
from ..bench.request import BenchRequest
from ..checkpoints import zoo
from ..data import dataset
from ..errors import CheckFailed, DeviceError
from ..explain import explanation
from ..kernel_files import formats, paths
from ..kernel_files.loading import LoadedKernel, load
from ..library import devices as library_devices
from ..library import kernels, thread_pool
from ..request import Request as RunRequest
from ..result import Result, versions
from . import kernel_file, profiles
from .request import ReportRequest

# --quick is for two cores in under two minutes, four passes being the fewest whose quartiles say something.
_QUICK_N, _QUICK_REPEAT, _QUICK_BATCH = 2000, 4, {"cpu": 200, "gpu": 1000}
_REPEAT = 8
# Whole networks. On two cores 2,000 images of fa2017 take 2 GB, where 10,000 take 10; and they are run 12 times, 1,000
# would be 60 times. The quick way's 100 runs are the fewest that have a 99th percentile.
_BATCHES = {"cpu": (1, 16, 256, 2000), "gpu": BATCHES}
_QUICK_BATCHES, _QUICK_RUNS = {"cpu": (1, 8, 64), "gpu": (1, 16, 1000)}, 100
_QUICK_EXPLAIN = 20  # seconds for the sanitizers or profilers of a kernel file

# The parts of a report, each with the share of the time that is over when it begins, as --quick took on two cores.
PARTS = {
    "baselines": 0.0,
    "the model in both modes": 0.04,
    "the kernel file": 0.08,
    "convolution kernels": 0.09,
    "the whole network by batch size": 0.27,
    "profile": 0.35,
    "correctness of the models": 0.63,
    "environment": 0.9,
    "pages": 0.91,
}

T = TypeVar("T")
Tick = Callable[[float, str], None]


class Baseline(NamedTuple):
    """A program of the course that ran MXNet's own convolution; without a result, why."""

    program: str
    what: str
    command: str
    result: Optional[Result]
    missing: str = ""


class Measured(NamedTuple):
    """All measurements of a report."""

    request: ReportRequest
    started: str
    seconds: float  # that measuring took
    backend: str
    no_gpu: str  # why no GPU was measured; "" when one was
    model: zoo.Model
    images: dataset.Images
    class_names: Tuple[str, ...]
    baselines: List[Baseline]
    convolutions: Optional[BenchResult]
    no_convolutions: str  # why
    networks: Optional[BenchResult]
    no_networks: str  # why
    ceilings: Dict[str, float]  # see bench.ceilings.measure; empty where they could not be measured
    no_ceilings: str  # why
    runs: List[Result]  # operator mode, fused mode
    run_commands: List[str]
    profiles: List[profiles.ReportProfile]  # operator mode, fused mode
    checks: List[verification.Check]
    verify_command: str
    kernel: Optional[kernel_file.ExplainedKernel]  # the user's file; None where the report is of none
    explain_command: str
    findings: List[doctor.InstalledPart]
    versions: Dict[str, str]

    @property
    def wrong(self) -> List[str]:
        """Everything that is incorrect, in words."""
        found = [text for result in (self.convolutions, self.networks) if result for text in result.wrong]
        found += [
            f"{c.model} ({c.weights} weights, {c.mode} mode, {c.operator}) on {c.n} images"
            for c in self.checks
            if not c.ok
        ]
        operator, fused = self.runs
        if self.kernel is not None and self.kernel.wrong:
            found.append(self.kernel.wrong)
        changed = int((operator.predictions != fused.predictions).sum())
        return [*found, *([f"{changed} predictions differ between the modes"] if changed else [])]


def within(tick: Tick, part: str) -> Tick:
    """The progress of one of `PARTS`, from 0 to 1, as progress of the whole report; begins with a first tick."""
    starts = [*PARTS.values(), 1.0]
    start, end = next((a, b) for name, a, b in zip(PARTS, starts, starts[1:]) if name == part)
    tick(start, part)
    return lambda share, what: tick(start + share * (end - start), part)


def measure(request: ReportRequest, tick: Tick = lambda share, what: None) -> Measured:
    """Measure everything that a report shows: about a minute in the quick way on two cores, some minutes else.

    Parameters
    ----------
    request
        What was asked for.
    tick
        Called with the share of the work that is done, 0 to 1, and the part that is measured now.

    Raises
    ------
    UsageError, DataError, CheckpointError
        For an unknown model, an n out of range, a dataset that is damaged.
    DeviceError
        When --backend gpu was asked for and there is none. What else is missing is said in the report.
    """
    began, started = time.monotonic(), datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    kernel = _loaded(request)
    chosen = devices.choose(kernel.backend if kernel else request.backend, request.device, "fused")
    model = zoo.get(request.model) if request.model else zoo.default()
    if request.n is not None:
        dataset.check_n(request.n)
    n = request.n if request.n is not None else (_QUICK_N if request.quick else dataset.TEST_SIZE)
    repeat = _QUICK_REPEAT if request.quick else _REPEAT
    images = dataset.load(n, request.data_dir, request.data)

    within(tick, "baselines")
    baselines = _baselines(request, model.edition, images, chosen)
    within(tick, "the model in both modes")
    usable, harm = request, ""  # request for the whole network, and why it leaves out the kernel file
    try:
        operator = pipeline.run(_run(request, model.name, chosen.backend, "operator", repeat), images, kernel=kernel)
    except CheckFailed as error:
        if kernel is None:
            raise
        usable, harm = request._replace(kernel=None, kernel_format=None), str(error)
        operator = pipeline.run(_run(usable, model.name, chosen.backend, "operator", repeat), images)
    runs = [operator, pipeline.run(_run(request, model.name, chosen.backend, "fused", repeat), images)]
    commands = [
        request.run_command(model.name, n, chosen.backend, run.mode, repeat, *_kernel(usable, run.mode)) for run in runs
    ]
    explained, seconds = None, _QUICK_EXPLAIN if request.quick else explanation.SECONDS
    if kernel is not None:
        within(tick, "the kernel file")
    if kernel is not None and harm:
        explained = kernel_file.harmful(kernel.file, model.edition, request.device, harm, seconds)
    elif operator.submission is not None:
        explained = kernel_file.explained(operator.submission, model.edition, seconds)
    done = within(tick, "convolution kernels")
    ladder = Convolutions(_convolutions(request, model.edition, chosen.backend, kernel))
    convolutions, no_convolutions = _attempt(lambda: ladder.measure(tick=done))
    done = within(tick, "the whole network by batch size")
    whole = Networks(_networks(request, model.edition, chosen.backend))
    networks, no_networks = _attempt(lambda: whole.measure(tick=done))
    within(tick, "profile")
    profiled = [_profile(usable, model.name, chosen.backend, result) for result in runs]
    roof, no_roof = profiled[-1].figures.ceilings, ""
    if not roof:
        roof, no_roof = _attempt(lambda: ceilings.measured_apart(chosen.backend, request.device, thread_pool.size()))
    within(tick, "correctness of the models")
    names = list(dict.fromkeys([model.name, *_baseline_names(model.edition)])) if request.quick else []
    asked = RunRequest(backend=request.backend, device=request.device, data_dir=request.data_dir, data=request.data)
    checks = verification.verify(names, asked)
    within(tick, "environment")
    return Measured(
        request=request,
        started=started,
        backend=chosen.backend,
        no_gpu=_no_gpu(request, chosen),
        model=model,
        images=images,
        class_names=runs[0].class_names,
        baselines=baselines,
        convolutions=convolutions,
        no_convolutions=no_convolutions,
        networks=networks,
        no_networks=no_networks,
        ceilings=roof or {},
        no_ceilings=no_roof,
        runs=runs,
        run_commands=commands,
        profiles=profiled,
        checks=checks,
        verify_command=request.verify_command(names),
        kernel=explained,
        explain_command=request.explain_command(model.edition),
        findings=doctor.examine(),
        versions=versions(),
        seconds=time.monotonic() - began,
    )


def _attempt(call: Callable[[], T]) -> Tuple[Optional[T], str]:
    """The call's result, or the reason why this machine has none."""
    try:
        return call(), ""
    except (DeviceError, ImportError) as error:
        return None, str(error)


def _baseline_names(edition):
    return [model.name for model in zoo.of_edition(edition) if model.operator == "builtin"]


def _baselines(request, edition, images, chosen) -> List[Baseline]:
    n, found = len(images.images), []
    for program, backend in (("m1.1", "cpu"), ("m1.2", "gpu")):
        what = f"{program}: MXNet's own convolution on the {backend.upper()}"
        for name in _baseline_names(edition)[:1]:
            command = request.run_command(name, n, backend, "operator", 1)
            missing = ""
            if backend == "gpu":
                missing = _no_gpu(request, chosen)
                if not missing and chosen.context != "gpu":
                    missing = "MXNet itself cannot use this GPU; with our operator it can, below"
            result = None
            if not missing:
                asked = RunRequest(name, backend=backend, device=request.device, mode="operator")
                result, missing = _attempt(functools.partial(pipeline.run, asked, images))
            found.append(Baseline(program, what, command, result, missing))
    return found


def _convolutions(
    request: ReportRequest, edition: str, backend: str, kernel: Optional[LoadedKernel] = None
) -> BenchRequest:
    less: Dict[str, Any] = {"batches": (_QUICK_BATCH[backend],), "repeat": _QUICK_REPEAT} if request.quick else {}
    named = f"{request.kernel},ladder" if request.kernel else "all"
    files = (kernel.file,) if kernel else ()
    return BenchRequest(
        (edition,), backend, request.device, kernels=named, files=files, formats=request.kernel_format, **less
    )


def _networks(request: ReportRequest, edition: str, backend: str) -> BenchRequest:
    batches, repeat = (_QUICK_BATCHES, _QUICK_RUNS) if request.quick else (_BATCHES, None)
    against = ",".join(peer.name for peer in peers.NETWORK if peer.in_report and backend in peer.network)
    return BenchRequest((edition,), backend, request.device, against, batches[backend], repeat)


def _profile(request, model, backend, result) -> profiles.ReportProfile:
    # The ceilings are the same for both modes: they are measured once. The quick way leaves the overhead out.
    less = [*(["--turns", "0"] if request.quick else []), *(["--no-ceilings"] if result.mode == "operator" else [])]
    less += _kernel(request, result.mode)
    run = request.run_command(model, result.n, backend, result.mode, 1, *less)
    words = ["profile", *shlex.split(run)[2:]]
    return profiles.measure(words, result, shlex.join(["fashion-infer", *words]))


def _kernel(request: ReportRequest, mode: str) -> List[str]:
    """The option that names the kernel, where the mode has kernels to choose from."""
    return request.kernel_options() if mode == "operator" else []


def _loaded(request: ReportRequest) -> Optional[LoadedKernel]:
    """The kernel file, recognised, built and loaded once for all parts; None for a kernel of the library."""
    RunRequest(kernel=request.kernel or "auto", kernel_format=request.kernel_format).check()
    if request.kernel is None:
        return None
    if not paths.is_path(request.kernel):
        kernels.check_kernel(request.kernel, request.backend)
        return None
    file = formats.recognise(request.kernel, request.kernel_format, request.backend)
    return load(file, device=request.device)


def _run(request: ReportRequest, model: str, backend: str, mode: str, repeat: int) -> RunRequest:
    options: Dict[str, Any] = {"backend": backend, "device": request.device, "mode": mode, "repeat": repeat}
    if request.kernel and mode == "operator":
        options.update(kernel=request.kernel, kernel_format=request.kernel_format)
    return RunRequest(model, **options)


def _no_gpu(request, chosen) -> str:
    if chosen.backend == "gpu":
        return ""
    if request.backend == "cpu":
        return "not asked for (--backend cpu)"
    if not kernels.table("gpu"):
        return "the operator library was built without CUDA (`make setup BACKEND=gpu` builds it)"
    try:
        found = len(library_devices.cuda_devices())
    except DeviceError as error:
        return str(error)
    return f"there is no GPU {request.device}: this machine has {found}"
