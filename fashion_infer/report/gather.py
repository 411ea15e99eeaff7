"""All that a report shows, measured in one run."""

import functools
import shlex
import time
from datetime import datetime, timezone
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple, TypeVar

from .. import devices, doctor, pipeline, verification
from ..bench import ceilings, conv, network
from ..bench.records import Result as Benchmark
from ..checkpoints import zoo
from ..data import dataset
from ..errors import DeviceError
from ..kernel_files import paths
from ..library import devices as library_devices
from ..library import kernels, thread_pool
from ..request import Request as RunRequest
from ..result import Result, versions
from . import profiles
from .request import Request

# --quick is for two cores in under two minutes, four passes being the fewest whose quartiles say something.
_QUICK_N, _QUICK_REPEAT, _QUICK_BATCH = 2000, 4, {"cpu": 200, "gpu": 1000}
_REPEAT = 8
# Whole networks. On two cores 2,000 images of fa2017 take 2 GB, where 10,000 take 10; and they are run 12 times, 1,000
# would be 60 times. The quick way's 100 runs are the fewest that have a 99th percentile.
_BATCHES = {"cpu": (1, 16, 256, 2000), "gpu": network.BATCHES}
_QUICK_BATCHES, _QUICK_RUNS = {"cpu": (1, 8, 64), "gpu": (1, 16, 1000)}, 100
_PEERS = {"cpu": "torch,onnxruntime,mxnet", "gpu": "torch"}  # not torch-compile: minutes a batch size on a GPU

T = TypeVar("T")


class Baseline(NamedTuple):
    """A program of the course that ran MXNet's own convolution; without a result, why."""

    program: str
    what: str
    command: str
    result: Optional[Result]
    missing: str = ""


class Measured(NamedTuple):
    """Everything."""

    request: Request
    started: str
    seconds: float  # that measuring took
    backend: str
    no_gpu: str  # why no GPU was measured; "" when one was
    model: zoo.Model
    images: dataset.Images
    class_names: Tuple[str, ...]
    baselines: List[Baseline]
    convolutions: Optional[Benchmark]
    no_convolutions: str  # why
    networks: Optional[Benchmark]
    no_networks: str  # why
    ceilings: Dict[str, float]  # see bench.ceilings.measure; empty where they could not be measured
    no_ceilings: str  # why
    runs: List[Result]  # operator mode, fused mode
    run_commands: List[str]
    profiles: List[profiles.Profile]  # operator mode, fused mode
    checks: List[verification.Check]
    verify_command: str
    ceilings_again: bool  # whether the ceilings are the higher ones of two measurements
    findings: List[doctor.Finding]
    versions: Dict[str, str]

    @property
    def wrong(self) -> List[str]:
        """Whatever was not as it must be, in words."""
        found = [text for result in (self.convolutions, self.networks) if result for text in result.wrong]
        found += [
            f"{c.model} ({c.weights} weights, {c.mode} mode, {c.operator}) on {c.n} images"
            for c in self.checks
            if not c.ok
        ]
        operator, fused = self.runs
        if operator.submission is not None and operator.submission.wrong:
            found.append(operator.submission.wrong)
        changed = int((operator.predictions != fused.predictions).sum())
        return [*found, *([f"{changed} predictions differ between the modes"] if changed else [])]


def measure(request: Request, progress: Callable[[str], None] = lambda text: None) -> Measured:
    """Measure everything that a report shows: a minute in the quick way on two cores, some minutes else.

    Parameters
    ----------
    request
        What was asked for.
    progress
        Called with a few words before each part.

    Raises
    ------
    UsageError, DataError, CheckpointError
        For an unknown model, an n out of range, a dataset that is damaged.
    DeviceError
        When --backend gpu was asked for and there is none. What else is missing is said in the report.
    """
    began, started = time.monotonic(), datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    chosen = devices.choose(_backend(request), request.device, "fused")
    model = zoo.get(request.model) if request.model else zoo.default()
    if request.n is not None:
        dataset.check_n(request.n)
    n = request.n if request.n is not None else (_QUICK_N if request.quick else dataset.TEST_SIZE)
    repeat = _QUICK_REPEAT if request.quick else _REPEAT
    images = dataset.load(n, request.data_dir, request.data)

    progress("baselines")
    baselines = _baselines(request, model.edition, images, chosen)
    progress(f"{model.name} in both modes")
    runs, commands = [], []
    for mode in ("operator", "fused"):
        options: Dict[str, Any] = {"backend": chosen.backend, "device": request.device, "mode": mode, "repeat": repeat}
        if request.kernel and mode == "operator":
            options.update(kernel=request.kernel, kernel_format=request.kernel_format)
        runs.append(pipeline.run(RunRequest(model.name, **options), images))
        commands.append(request.run_command(model.name, n, chosen.backend, mode, repeat, *_kernel(request, mode)))
    progress("convolution kernels")
    convolutions, no_convolutions = _attempt(
        lambda: conv.measure(_convolutions(request, model.edition, chosen.backend))
    )
    progress("the whole network by batch size")
    networks, no_networks = _attempt(lambda: network.measure(_networks(request, model.edition, chosen.backend)))
    progress("profile")
    profiled = [_profile(request, model.name, chosen.backend, result) for result in runs]
    roof, no_roof = profiled[-1].figures.ceilings, ""
    if not roof:
        roof, no_roof = _attempt(lambda: ceilings.measured_apart(chosen.backend, request.device, thread_pool.size()))
    roof, again = _measured_again(roof or {}, convolutions, chosen.backend, request.device)
    progress("correctness of the models")
    names = list(dict.fromkeys([model.name, *_baseline_names(model.edition)])) if request.quick else []
    asked = RunRequest(backend=request.backend, device=request.device, data_dir=request.data_dir, data=request.data)
    checks = verification.verify(names, asked)
    progress("environment")
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
        ceilings=roof,
        ceilings_again=again,
        no_ceilings=no_roof,
        runs=runs,
        run_commands=commands,
        profiles=profiled,
        checks=checks,
        verify_command=request.verify_command(names),
        findings=doctor.examine(),
        versions=versions(),
        seconds=time.monotonic() - began,
    )


def _attempt(call: Callable[[], T]) -> Tuple[Optional[T], str]:
    """What the call returns, or why this machine cannot."""
    try:
        return call(), ""
    except (DeviceError, ImportError) as error:
        return None, str(error)


def _measured_again(known: Dict[str, float], bench: Optional[Benchmark], backend: str, device: int):
    """The ceilings, measured once more where something stands above them, and whether they were.

    Another program may have slowed the first measurement down: of two the higher ones count.
    """
    rows = [(row.tflop_s, case) for case in (bench.cases if bench else ()) for row in case.rows if row.tflop_s]
    highest = [ceilings.roof(case.shape.intensity, known) for _, case in rows]
    if not any(most is not None and rate > most for (rate, _), most in zip(rows, highest)):
        return known, False
    found, _ = _attempt(lambda: ceilings.measured_apart(backend, device, thread_pool.size()))
    return {name: max(value, (found or {}).get(name, 0.0)) for name, value in known.items()}, found is not None


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


def _convolutions(request: Request, edition: str, backend: str) -> conv.Request:
    less: Dict[str, Any] = {"batch": _QUICK_BATCH[backend], "repeat": _QUICK_REPEAT} if request.quick else {}
    named = f"{request.kernel},ladder" if request.kernel else "all"
    return conv.Request((edition,), backend, named, device=request.device, formats=request.kernel_format, **less)


def _networks(request: Request, edition: str, backend: str) -> network.Request:
    batches, repeat = (_QUICK_BATCHES, _QUICK_RUNS) if request.quick else (_BATCHES, None)
    return network.Request((edition,), backend, _PEERS[backend], batches[backend], repeat, request.device)


def _profile(request, model, backend, result) -> profiles.Profile:
    # The ceilings are the same for both modes: they are measured once. The quick way leaves the overhead out.
    less = [*(["--turns", "0"] if request.quick else []), *(["--no-ceilings"] if result.mode == "operator" else [])]
    less += _kernel(request, result.mode)
    run = request.run_command(model, result.n, backend, result.mode, 1, *less)
    words = ["profile", *shlex.split(run)[2:]]
    return profiles.measure(words, result, shlex.join(["fashion-infer", *words]))


def _kernel(request: Request, mode: str) -> List[str]:
    """The option that names the kernel, where the mode has kernels to choose from."""
    return request.kernel_options() if mode == "operator" else []


def _backend(request: Request) -> str:
    """The backend that was asked for, or that the kernel runs on; the kernel is known, and built, from here on."""
    RunRequest(kernel=request.kernel or "auto", kernel_format=request.kernel_format).check()
    if request.kernel is None:
        return request.backend
    if not paths.is_path(request.kernel):
        kernels.check_kernel(request.kernel, request.backend)
        return request.backend
    from ..kernel_files import formats, loading

    file = formats.recognise(request.kernel, request.kernel_format, request.backend)
    return loading.load(file, device=request.device).backend


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
