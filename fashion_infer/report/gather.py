"""Measures everything that a report shows, in one run."""

import functools
import json
import os
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple, TypeVar

from .. import devices, doctor, pipeline, verification
from ..bench import ceilings, peers
from ..bench.conv import Convolutions
from ..bench.network import BATCHES, Networks
from ..bench.records import BenchResult
from ..bench.request import BenchRequest
from ..checkpoints import editions, zoo
from ..data import dataset
from ..errors import CheckFailed, DeviceError
from ..explain import explanation
from ..judging import judge
from ..judging.verdict import Verdict
from ..kernel_files import formats
from ..kernel_files.loading import LoadedKernel, load
from ..library import bindings, kernels
from ..library import devices as library_devices
from ..profiling.figures import Figures, from_dict
from ..profiling.tables import ProfileTable, Row
from ..request import Request, option
from ..result import Result, versions
from ..system import programs

# With --quick, a report must take less than two minutes on two cores. Four is the smallest number of passes for which
# quartiles are useful.
_QUICK_N, _QUICK_REPEAT, _QUICK_BATCH = 2000, 4, {"cpu": 200, "gpu": 1000}
_REPEAT = 8
# Batch sizes for whole networks. The largest on a CPU is 2,000: on two cores, 2,000 images of fa2017 need 2 GB of
# memory, but 10,000 images need 10 GB; and a batch of 2,000 runs 12 times, but one of 1,000 would run 60 times. With
# --quick, each batch runs 100 times, the smallest number for which a 99th percentile is shown.
_BATCHES = {"cpu": (1, 16, 256, 2000), "gpu": BATCHES}
_QUICK_BATCHES, _QUICK_RUNS = {"cpu": (1, 8, 64), "gpu": (1, 16, 1000)}, 100
_QUICK_EXPLAIN = 20  # time limit in seconds for the sanitizers or profilers of a kernel file, with --quick
_PROFILE_SECONDS = 600  # time limit; a profile of 10,000 images takes ten seconds

FILE = "the kernel file"
# The parts of a report, and their seconds on two idle cores with AVX-512, with --quick and without.
PARTS = {
    "baselines": (2, 5),
    "the model in both modes": (3, 10),
    FILE: (0, 0),
    "convolution kernels": (11, 45),
    "the whole network by batch size": (6, 40),
    "profile": (17, 40),
    "correctness of the models": (14, 90),
    "environment": (1, 1),
    "pages": (6, 8),
}
# What a kernel file adds to them, if it is as slow as the one that `kernel new` writes.
_OF_FILE = {"the model in both modes": (10, 75), FILE: (4, 5), "convolution kernels": (3, 5), "profile": (3, 55)}

T = TypeVar("T")
Tick = Callable[[float, str], None]


@dataclass(frozen=True)
class ReportRequest(Request):
    """The options of a report. Its operator mode runs the kernel, and its ladder times it."""

    quick: bool = option(False, "Measure with fewer repeats and smaller batches, and check at most two models.")

    def command(self, out: str) -> str:
        words = ["fashion-infer", "report", "--out", out, "--backend", self.backend]
        words += ["--model", self.model] if self.model else []
        words += ["--n", str(self.n)] if self.n is not None else []
        words += self.kernel_options()
        return shlex.join([*words, *self._device(), *(["--quick"] if self.quick else []), *self._where()])

    def run_command(self, model: str, n: int, backend: str, mode: str, repeat: int, *more: str) -> str:
        words = ["fashion-infer", "run", "--model", model, "--n", str(n), "--backend", backend, "--mode", mode]
        device = self._device() if backend == "gpu" else []
        return shlex.join([*words, *device, *(["--repeat", str(repeat)] if repeat > 1 else []), *self._where(), *more])

    def verify_command(self, models: List[str]) -> str:
        """Return the command line that repeats the checks of these models; of all models if the list is empty."""
        words = ["fashion-infer", "verify", *(word for name in models for word in ("--model", name))]
        return shlex.join([*words, "--backend", self.backend, *self._device(), *self._where()])

    def explain_command(self, edition: str) -> str:
        words = ["fashion-infer", "kernel", "explain", str(self.kernel), *self.kernel_options()[2:]]
        return shlex.join([*words, "--edition", edition, *self._device()])

    def kernel_options(self) -> List[str]:
        words = [] if self.kernel == "auto" else ["--kernel", str(self.kernel)]
        return [*words, *(["--format", self.kernel_format] if self.kernel_format else [])]

    def _where(self) -> List[str]:
        words = ["--data", self.data] if self.data else []
        return [*words, *(["--data-dir", str(self.data_dir)] if self.data_dir else [])]

    def _device(self) -> List[str]:
        return ["--device", str(self.device)] if self.device else []


class Baseline(NamedTuple):
    """Result of a program of the course that runs MXNet's own convolution, or the reason why there is no result."""

    program: str  # name of the program, "m1.1" or "m1.2"
    what: str  # description for the page
    command: str  # command that runs it again
    result: Optional[Result]
    missing: str = ""  # reason why `result` is None


class ReportProfile(NamedTuple):
    command: str  # command that repeats the profile
    figures: Figures
    missing: str  # reason why the profiler could not run; `figures` are then only op times. "" if it ran


class Measured(NamedTuple):
    request: ReportRequest
    started: str
    seconds: float  # time of all measurements
    backend: str
    no_gpu: str  # reason why no GPU was measured; "" if one was
    model: zoo.Model
    baselines: List[Baseline]
    convolutions: Optional[BenchResult]
    no_convolutions: str  # reason why `convolutions` is None
    networks: Optional[BenchResult]
    no_networks: str  # reason why `networks` is None
    ceilings: Dict[str, float]  # see bench.ceilings.measure; empty if they could not be measured
    no_ceilings: str  # reason why `ceilings` is empty
    runs: List[Result]  # runs in operator mode and in fused mode
    run_commands: List[str]
    profiles: List[ReportProfile]  # profiles of operator mode and of fused mode
    checks: List[verification.Check]
    verify_command: str
    kernel: Optional[explanation.Explanation]  # of the user's kernel file; None without one
    harm: str  # how the kernel file would harm this process, so it runs elsewhere; "" if it is harmless
    findings: List[doctor.InstalledPart]
    versions: Dict[str, str]

    @property
    def changed(self) -> int:
        return int((self.runs[0].predictions != self.runs[1].predictions).sum())

    def faults(self) -> Tuple[List[str], List[str]]:
        kernel = self.kernel
        file: List[str] = []
        failed = (check for check in self.checks if not check.ok)
        ours = [f"{c.model} ({c.weights} weights, {c.mode} mode, {c.operator}) on {c.n} images" for c in failed]
        for result in filter(None, (self.convolutions, self.networks)):
            for text in result.wrong:
                (file if kernel and text.startswith(f"{kernel.verdict.file.name} on ") else ours).append(text)
        if kernel and (self.harm or not kernel.right):
            file = [self.harm or kernel.verdict.sentence]
        if self.changed:
            (file if kernel else ours).append(f"{self.changed} predictions differ between the modes")
        return file, ours

    @property
    def wrong(self) -> List[str]:
        return [text for found in self.faults() for text in found]


def _parts(request: ReportRequest) -> Dict[str, int]:
    """Return the seconds of each part of a report on two idle cores."""
    added = _OF_FILE if request.kernel_file else {}
    full = not request.quick
    return {name: seconds[full] + added.get(name, (0, 0))[full] for name, seconds in PARTS.items()}


def estimate(request: ReportRequest) -> float:
    """Return the expected seconds of a report on this machine, if it stays as busy as in the last minute."""
    return sum(_parts(request).values()) * (1 + os.getloadavg()[0] / (os.cpu_count() or 1))


def within(tick: Tick, request: ReportRequest, part: str) -> Tick:
    """Report the beginning of one of `PARTS`, and return the function that reports that part's progress, 0 to 1."""
    parts = _parts(request)
    whole, before = sum(parts.values()), sum(list(parts.values())[: list(parts).index(part)])
    tick(before / whole, part)
    return lambda share, what: tick((before + share * parts[part]) / whole, part)


def measure(request: ReportRequest, tick: Tick = lambda share, what: None) -> Measured:
    """Measure everything that a report shows; `tick` gets the share that is done, 0 to 1, and the current part."""
    began, started = time.monotonic(), datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    kernel = _loaded(request)
    chosen = devices.choose(kernel.backend if kernel else request.backend, request.device, "fused")
    model = zoo.get(request.model) if request.model else zoo.default()
    n = request.n if request.n is not None else (_QUICK_N if request.quick else dataset.TEST_SIZE)
    repeat = _QUICK_REPEAT if request.quick else _REPEAT
    images = dataset.load(n, request.data_dir, request.data)

    within(tick, request, "baselines")
    baselines = _baselines(request, model.edition, images, chosen)
    within(tick, request, "the model in both modes")
    # `usable` is the request without the kernel file if that crashes or harms this process; `harm` is then the reason.
    usable, harm = request, ""
    try:
        operator = pipeline.run(_run(request, model.name, chosen.backend, "operator", repeat), images, kernel=kernel)
    except CheckFailed as error:
        if kernel is None:
            raise
        usable, harm = request.but(kernel="auto", kernel_format=None), str(error)
        operator = pipeline.run(_run(usable, model.name, chosen.backend, "operator", repeat), images)
    runs = [operator, pipeline.run(_run(request, model.name, chosen.backend, "fused", repeat), images)]
    commands = [
        request.run_command(model.name, n, chosen.backend, run.mode, repeat, *_kernel(usable, run.mode)) for run in runs
    ]
    explained, seconds = None, _QUICK_EXPLAIN if request.quick else explanation.SECONDS
    if kernel is not None:
        within(tick, request, FILE)
    if kernel is not None and harm:  # the judge calls the file in another process
        shapes = list(editions.convolution_shapes(editions.get(model.edition)))
        explained = _explained(judge.check(kernel.file, shapes=shapes, device=request.device), seconds, harm)
    elif operator.submission is not None:
        explained = _explained(operator.submission, seconds)
    done = within(tick, request, "convolution kernels")
    ladder = Convolutions(_convolutions(request, model.edition, chosen.backend, kernel))
    convolutions, no_convolutions = _attempt(lambda: ladder.measure(tick=done))
    done = within(tick, request, "the whole network by batch size")
    whole = Networks(_networks(request, model.edition, chosen.backend))
    networks, no_networks = _attempt(lambda: whole.measure(tick=done))
    within(tick, request, "profile")
    profiled = [_profile(usable, model.name, chosen.backend, result) for result in runs]
    roof, no_roof = profiled[-1].figures.ceilings, ""
    if not roof:
        roof, no_roof = _attempt(
            lambda: ceilings.measure_in_child(chosen.backend, request.device, bindings.thread_count())
        )
    within(tick, request, "correctness of the models")
    names = list(dict.fromkeys([model.name, *_baseline_names(model.edition)])) if request.quick else []
    checks = verification.verify(names, request.but(model=None, n=None, kernel="auto", kernel_format=None))
    within(tick, request, "environment")
    return Measured(
        request=request,
        started=started,
        backend=chosen.backend,
        no_gpu=_no_gpu(request, chosen),
        model=model,
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
        harm=harm,
        findings=doctor.examine(),
        versions=versions(),
        seconds=time.monotonic() - began,
    )


def _attempt(call: Callable[[], T]) -> Tuple[Optional[T], str]:
    """Return the call's result and "", or None and the reason why this machine cannot make the call."""
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
                    missing = "MXNet itself cannot use this GPU; the sections below use it with our operator"
            result = None
            if not missing:
                asked = _run(request.but(kernel="auto", kernel_format=None), name, backend, "operator", 1)
                result, missing = _attempt(functools.partial(pipeline.run, asked, images))
            found.append(Baseline(program, what, command, result, missing))
    return found


def _convolutions(
    request: ReportRequest, edition: str, backend: str, kernel: Optional[LoadedKernel] = None
) -> BenchRequest:
    less: Dict[str, Any] = {"batches": (_QUICK_BATCH[backend],), "repeat": _QUICK_REPEAT} if request.quick else {}
    named = "all" if request.kernel == "auto" else f"{request.kernel},ladder"
    files = (kernel.file,) if kernel else ()
    return BenchRequest(
        (edition,), backend, request.device, kernels=named, files=files, formats=request.kernel_format, **less
    )


def _networks(request: ReportRequest, edition: str, backend: str) -> BenchRequest:
    batches, repeat = (_QUICK_BATCHES, _QUICK_RUNS) if request.quick else (_BATCHES, None)
    against = ",".join(peer.name for peer in peers.NETWORK if peer.in_report and backend in peer.network)
    return BenchRequest((edition,), backend, request.device, against, batches[backend], repeat)


def _profile(request, model, backend, result) -> ReportProfile:
    # The ceilings are the same for both modes and are measured only once. With --quick, no pass is without it.
    less = [*(["--turns", "0"] if request.quick else []), *(["--no-ceilings"] if result.mode == "operator" else [])]
    less += _kernel(request, result.mode)
    run = request.run_command(model, result.n, backend, result.mode, 1, *less)
    words = ["profile", *shlex.split(run)[2:]]
    return measure_profile(words, result, shlex.join(["fashion-infer", *words]))


def _kernel(request: ReportRequest, mode: str) -> List[str]:
    """Return the options that name the kernel. Only the operator mode has kernels to choose from."""
    return request.kernel_options() if mode == "operator" else []


def _loaded(request: ReportRequest) -> Optional[LoadedKernel]:
    """Recognise, build and load the kernel file, once for all parts of the report; return None if there is no file."""
    pipeline.check(request)
    if not request.kernel_file:
        kernels.check_kernel(str(request.kernel), request.backend)
        return None
    file = formats.recognise(request.kernel_file, request.kernel_format, request.backend)
    return load(file, device=request.device)


def _run(request: ReportRequest, model: str, backend: str, mode: str, repeat: int) -> ReportRequest:
    if mode == "fused":  # it has its own kernels
        request = request.but(kernel="auto", kernel_format=None)
    return request.but(model=model, n=None, backend=backend, mode=mode, repeat=repeat)


def _no_gpu(request, chosen) -> str:
    if chosen.backend == "gpu":
        return ""
    if request.backend == "cpu":
        return "--backend cpu excludes it"
    if not kernels.table("gpu"):
        return "the operator library was built without CUDA (`make setup BACKEND=gpu` builds it)"
    try:
        found = len(library_devices.cuda_devices())
    except DeviceError as error:
        return str(error)
    return f"there is no GPU {request.device}: this machine has {found}"


def _explained(verdict: Verdict, seconds: float, harm: str = "") -> explanation.Explanation:
    if harm or not verdict.right:
        found, missing = explanation.why_wrong(verdict, seconds)
        return explanation.Explanation(verdict, "", tuple(found), tuple(missing))
    return explanation.why_slow(verdict, verdict.layers[-1], seconds=seconds)


def measure_profile(words: Sequence[str], result: Result, command: str) -> ReportProfile:
    """Run `fashion-infer WORDS`, a profile command. If it fails, make a table of the result's op times instead."""
    try:
        done = programs.run([sys.executable, "-m", "fashion_infer", *words, "--json"], _PROFILE_SECONDS)
        if done.returncode == 0:
            return ReportProfile(command, from_dict(json.loads(done.stdout)), "")
        said = programs.last_line(done)
        reason = said.partition("fashion-infer: ")[2] or said
    except (OSError, ValueError, KeyError, TypeError, subprocess.TimeoutExpired) as error:
        reason = str(error)
    taken = {f"{layer.name} ({layer.kernel or layer.operator})": layer.seconds for layer in result.layers}
    nanoseconds = {name: [round(1e9 * s) for s in seconds] for name, seconds in taken.items()}
    total = sum(map(sum, nanoseconds.values())) or 1
    rows = [Row(name, sum(ns) / total, sum(ns), len(ns), min(ns), max(ns)) for name, ns in nanoseconds.items()]
    table = ProfileTable("Op times", sorted(rows, key=lambda row: -row.time))  # a call is a pass over all images
    return ReportProfile(command, Figures([table]), reason)
