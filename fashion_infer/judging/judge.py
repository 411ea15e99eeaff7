"""Judges kernel files: the layers of editions or of a network, each in a process of its own."""

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ..checkpoints import editions
from ..graph.layers import ConvolutionShape
from ..kernel_files import loading
from ..kernel_files.formats import KernelFile
from ..kernel_files.loading import LoadedKernel
from ..system.isolation import TIMEOUT
from . import bound, plan, reasons
from .callers import isolated, sanitized
from .callers.here import runs_threads
from .callers.isolated import Job, Outcome, Tick
from .callers.sanitized import SanitizedBuild, SanitizedCall
from .calls import Cause
from .inputs import Inputs, KeyedStream, Seed, random_inputs
from .verdict import GIVEN, OTHER, ShapeVerdict, Verdict

# In this order: height and width differ, odd sizes, all sizes 1, a kernel as large as the image, more filters than in a
# tile.
OTHER_SHAPES = (
    ConvolutionShape(1, 3, 11, 13, 4, 3),
    ConvolutionShape(1, 3, 13, 13, 5, 3),
    ConvolutionShape(1, 1, 1, 1, 1, 1),
    ConvolutionShape(1, 2, 6, 6, 3, 6),
    ConvolutionShape(1, 5, 37, 37, 67, 4),
)
MANY = 1003  # images of the largest call; no multiple of what a file may compute at once
_FEW, _MOST = 3, 32  # images per call by default, and of a kernel with threads on any number of processors
_FIRST = 20.0  # seconds after which a first call of one image hangs, unless our naive kernel takes a hundredth of that
_SLOWER = 10  # how many times longer per image a call with many images may take than one with one image,
_PATIENCE = 60.0  # up to this many seconds, or as many times longer than our naive kernel takes
_PRODUCTS = 5e8  # of a naive kernel per second, at least
RACES = 0.25  # seconds of calls on each layer that look for a race
_HUNG = 2  # shapes that reach a time limit before no other shape is tried
_CALLS = 3  # of each shape with sanitizers, which shows leaks
_WITH_THREADS = 16  # images of each of them for a file with threads
_SANITIZED = 15.0  # seconds for all shapes with sanitizers, and then for each
# Causes that a line of the file explains better, if the sanitizers find one.
_LESS_THAN_A_LINE = frozenset(
    """incorrect not_all_written later_call unstable race thread_count uninitialised reads_outside writes_after_end
    writes_before_start writes_outside past_end crash heap stack_smashed divides_by_zero many_images few_images
    computes_nan kept_pointer""".split()  # noqa: SIM905
)
# Causes of layers that are wrong for a reason that they alone do not show.
_UNEXPLAINED = (bound.INCORRECT, "not_all_written", "not_written", "all_zero", "all_equal")


class Layer(NamedTuple):
    """A layer to judge: its name, and its sizes for one image."""

    what: str
    shape: ConvolutionShape


def layers_of(file: KernelFile, edition: Optional[str] = None) -> List[Layer]:
    """Return the layers of an edition, or of those that used the file's format, or of all; UsageError if unknown."""
    names = (edition,) if edition else file.format.editions or tuple(sorted(editions.EDITIONS))
    return [
        Layer(f"{name}, layer {number}", ConvolutionShape(1, C, size, size, M, K))
        for name in names
        for number, (C, size, M, K) in enumerate(editions.convolution_shapes(editions.get(name)), start=1)
    ]


def check(
    file: KernelFile,
    edition: Optional[str] = None,
    shapes: Sequence[Tuple[int, int, int, int]] = (),
    seed: Optional[Seed] = None,
    device: int = 0,
    timeout: float = TIMEOUT,
    verbose: bool = False,
    tick: Tick = lambda share, what: None,
) -> Verdict:
    """Judge a kernel file on an edition's layers, on given sizes, or on all layers of its format and on other sizes.

    `shapes` has (channels, input size, filters, kernel size); `seed` is public by default; `timeout` is each shape's,
    in seconds without the build. UsageError or DeviceError when the file cannot be built or loaded, or needs a GPU and
    there is none; UsageError for an unknown edition.
    """
    if shapes:
        layers = [Layer(GIVEN, ConvolutionShape(1, C, size, size, M, K)) for C, size, M, K in shapes]
    else:
        layers = layers_of(file, edition)
    others = [] if shapes or edition else [Layer(OTHER, shape) for shape in OTHER_SHAPES]
    file, library = loading.built(file, verbose, device=device)
    judge = _Judge(file, library, seed or Seed(0), device, timeout, tick)
    found = judge.judged(layers, others)
    return Verdict(file, tuple(found), edition, together=_together(found))


def check_layers(kernel: LoadedKernel, layers: Sequence[Layer], images: int = 0, timeout: float = TIMEOUT) -> Verdict:
    """Judge a loaded kernel on the layers of a network or of a benchmark, in other processes.

    `images` is the number of images per call; 0 for the usual one.
    """
    judge = _Judge(kernel.file, kernel.library, Seed(0), kernel.device, timeout, lambda share, what: None, images)
    return Verdict(kernel.file, tuple(judge.judged(layers, ())))


def outputs(what: str, y: np.ndarray, x: np.ndarray, k: np.ndarray, precision: str = "half sums") -> ShapeVerdict:
    """Judge the outputs of one call on random inputs; `precision` is the least precise class that is allowed."""
    inputs = Inputs(x, k)
    found = bound.compare(y, inputs, KeyedStream.fresh())
    cause = None if found.right else Cause(bound.INCORRECT)
    if found.right and bound.worst(found.precision, precision) != precision:
        cause = Cause("less_precise", {"precision": found.precision, "wanted": precision})
    return ShapeVerdict(what, inputs.shape, cause, found.precision, found, calls=1)


class _Judge:
    def __init__(
        self,
        file: KernelFile,
        library: Optional[Path],
        seed: Seed,
        device: int,
        timeout: float,
        tick: Tick,
        images: int = 0,
    ):
        self._file, self._library, self._seed, self._device = file, library, seed, device
        self._timeout, self._tick = timeout, tick
        self._threaded = runs_threads(file)
        self._images = images or few_images(self._threaded)
        self._needs_thousands = False
        self._server = isolated.Server()

    def judged(self, layers: Sequence[Layer], others: Sequence[Layer]) -> List[ShapeVerdict]:
        """Judge layers and other sizes; shapes that the kernel does not support are left out."""
        asked = [*layers, *others]
        kinds = (False, True) if self._threaded else (False,)  # without and with a search for races
        builds = [sanitized.begin(self._file, self._library, races) for races in kinds]
        with self._server, ThreadPoolExecutor(1) as pool:  # the sanitizers' process uses another core
            memory = pool.submit(self._of_sanitizers, builds, asked)
            jobs = [self._job(each, number, len(asked)) for number, each in enumerate(asked)]
            outcomes = list(self._until_it_hangs(jobs))
            found = [self._of(each, outcome) for each, outcome in zip(asked, outcomes)]
            found = [self._again(one, each) for one, each in zip(found, asked)]
            found = self._together(found, asked)
            causes = memory.result()
        return [_with_sanitizers(one, each) for one, each in zip(found, causes) if one is not None]

    def _until_it_hangs(self, jobs: Sequence[Job]) -> Iterator[Outcome]:
        """Yield the outcomes of jobs until two of them did not end in time; the other shapes are not tried then.

        What the file prints goes to stderr once, not for each shape.
        """
        hung, printed = 0, ""
        for outcome in self._server.outcomes(jobs, self._tick):
            yield outcome
            if outcome.printed and not printed:
                printed = outcome.printed
                sys.stderr.write(printed)
            hung += outcome.cause is not None and outcome.cause.code in ("hangs", "time_limit")
            if hung == _HUNG:
                return

    def _of_sanitizers(self, builds: Sequence[Optional[SanitizedBuild]], asked: Sequence[Layer]) -> List[List[Cause]]:
        """Return the causes that builds with sanitizers show for each shape, and what their outputs show."""
        found: List[List[Cause]] = [[] for _ in asked]
        built = [build for build in builds if build is not None and asked]
        calls = [self._sanitized_call(each) for each in asked] if built else []
        for build in built:
            for causes, more in zip(found, self._of_build(build, calls)):
                causes += more
        return found

    def _of_build(self, build: SanitizedBuild, calls: List[SanitizedCall]) -> List[List[Cause]]:
        together = [*calls[:1] * (_CALLS - 1), *calls]  # a leak shows after several calls
        run = build.run(together, _SANITIZED)
        if run is None or not (run.causes or any(map(_outputs_wrong, together, run.outputs))):
            return [[] for _ in calls]
        found = [self._alone_with_sanitizers(build, call) for call in calls]
        if not any(found):  # what the file keeps from one size is used for another
            for cause in run.causes:
                found[max(0, cause.details.get("call", 0) - _CALLS)].append(cause)
        return found

    def _sanitized_call(self, layer: Layer) -> SanitizedCall:
        shape = layer.shape._replace(B=_WITH_THREADS if self._threaded else 2)
        inputs = random_inputs(self._seed.stream(*layer.shape[1:], 1), shape)
        return SanitizedCall(inputs, threads=4 if self._threaded else None)

    def _alone_with_sanitizers(self, build: SanitizedBuild, call: SanitizedCall) -> List[Cause]:
        run = build.run([call] * _CALLS, _SANITIZED)
        if run is None or run.causes:
            return run.causes if run else []
        if not any(map(_outputs_wrong, [call] * _CALLS, run.outputs)):
            return []
        one = build.run([call._replace(threads=1)], _SANITIZED)
        output = one and next(iter(one.outputs), None)
        if output is not None and sanitized.has_unwritten(output):
            return [Cause("uninitialised")]
        if self._threaded and one and not any(map(_outputs_wrong, [call], one.outputs)):
            return [Cause("race", {"with_one_thread": "right"})]
        return [Cause("optimiser_hides")]

    def _job(self, layer: Layer, number: int, count: int, images: int = 0) -> Job:
        options = plan.Options(images or self._images, race_seconds=0 if layer.what == OTHER else RACES)
        if images:
            options = options._replace(thousand=True, one_first=False)
        elif self._file.backend == "gpu" and layer.what != OTHER:
            options = options._replace(many=MANY)
        first = first_seconds(layer.shape) * (1 if options.one_first else options.images)
        return self._of_plan("try_shape", (layer.what, layer.shape, self._seed, self._device, options), layer, first)

    def _of_plan(self, function: str, arguments: Tuple[Any, ...], layer: Layer, first: float) -> Job:
        return Job(
            str(self._file.path),
            self._file.format.name,
            self._file.backend,
            self._library,
            f"{plan.__name__}:{function}",
            arguments,
            layer.what if layer.what != OTHER else "size {1} x {2} x {3}".format(*layer.shape),
            self._device,
            self._timeout,
            first,
        )

    def _of(self, layer: Layer, outcome: Outcome) -> Optional[ShapeVerdict]:
        if outcome.cause is None:
            return outcome.result
        images = outcome.cause.details.get("images", self._images)
        return ShapeVerdict(layer.what, layer.shape._replace(B=images), outcome.cause, bound.INCORRECT)

    def _again(self, found: Optional[ShapeVerdict], layer: Layer) -> Optional[ShapeVerdict]:
        """Judge a layer again with 1,000 images, if the file's format allowed files that need multiples of 1,000;
        other sizes only if a layer needed that."""
        if found is None or found.right or not self._file.format.thousands or self._file.backend != "gpu":
            return found
        if layer.what == OTHER and not self._needs_thousands:
            return found
        (outcome,) = self._server.run_each([self._job(layer, 0, 1, loading.TRIAL_IMAGES)], self._tick)
        again = self._of(layer, outcome)
        if again is None or not again.right:
            return found
        self._needs_thousands = True
        return again

    def _together(self, found: List[Optional[ShapeVerdict]], asked: Sequence[Layer]) -> List[Optional[ShapeVerdict]]:
        """Call the layers of each correct edition one after another, and the cheapest layer with many images."""
        right = [at for at, one in enumerate(found) if self._is_right(one) and asked[at].what != OTHER]
        jobs, places = [], []
        groups: dict = {}
        for number in right:
            edition, layer, _ = asked[number].what.partition(", layer ")
            groups.setdefault(edition if layer else GIVEN, []).append(number)  # a network's layers are one group
        for numbers in groups.values():
            if len(numbers) > 1:
                shapes = [asked[number] for number in numbers]
                images = loading.TRIAL_IMAGES if self._needs_thousands else self._images
                arguments = shapes, self._seed, self._device, images
                first = images * first_seconds(shapes[0].shape)
                jobs.append(self._of_plan("try_sequence", arguments, shapes[0], first))
                places.append(numbers)
        outcomes = self._server.run_each(jobs, self._tick)
        self._change(
            found, asked, places, [one._replace(cause=one.cause and Cause("other_layers")) for one in outcomes]
        )
        if self._file.backend == "cpu":
            right = sorted((at for at in right if self._is_right(found[at])), key=lambda at: asked[at].shape.operations)
            self._with_many(found, asked, right[:1])
            if right and not self._is_right(found[right[0]]):  # nothing is known of the other networks then
                networks = {at: asked[at].what.partition(", layer ") for at in reversed(right)}
                cheapest = {edition if layer else at: at for at, (edition, layer, _) in networks.items()}
                self._with_many(found, asked, [at for at in cheapest.values() if at != right[0]])
        return found

    def _with_many(self, found: List[Optional[ShapeVerdict]], asked: Sequence[Layer], places: Sequence[int]) -> None:
        """Call layers with many images, and replace their verdicts."""
        jobs = []
        for at in places:
            before = found[at]
            assert before is not None
            exact = before.precision == bound.CLASSES[0]
            arguments = (*asked[at], self._seed, self._device, MANY, bound.CLASSES[0 if exact else 2])
            patience = max(_PATIENCE, _SLOWER * MANY * _naive_seconds(asked[at].shape))
            first = max(_FIRST, min(patience, _SLOWER * MANY * before.op_seconds))
            job = self._of_plan("try_many", arguments, asked[at], first)
            jobs.append(job._replace(first_calls=2))  # the second one has many images
        self._change(found, asked, [[at] for at in places], self._server.run_each(jobs, self._tick))

    def _change(self, found: List[Optional[ShapeVerdict]], asked, places, outcomes: Sequence[Outcome]) -> None:
        """Replace verdicts by those of further jobs on the same layers, whose places are in `places`."""
        for numbers, outcome in zip(places, outcomes):
            results = [self._of(asked[numbers[0]], outcome)] if outcome.cause else outcome.result
            for one in filter(None, results):
                at = next(number for number in numbers if asked[number].what == one.what)
                before = found[at]
                assert before is not None
                precision = bound.worst(before.precision, one.precision)
                found[at] = before._replace(shape=one.shape, precision=precision) if one.right else one

    @staticmethod
    def _is_right(one: Optional[ShapeVerdict]) -> bool:
        return one is not None and one.right


def _outputs_wrong(call: SanitizedCall, output: Optional[np.ndarray]) -> bool:
    return output is not None and not bound.compare(output, call.inputs, KeyedStream.fresh()).right


def _with_sanitizers(found: ShapeVerdict, causes: Sequence[Cause]) -> ShapeVerdict:
    """Add what the sanitizers show to a verdict: a leak as a note, another cause unless the plan's says more."""
    faults = sorted((cause for cause in causes if cause.code != "leak"), key=lambda cause: "line" not in cause.details)
    leaks = [cause for cause in causes if cause.code == "leak"]
    if leaks and not faults:
        found = found._replace(notes=(*found.notes, *leaks))
    if not faults:
        return found
    cause = faults[0]
    says_more = found.code in _LESS_THAN_A_LINE and "line" in cause.details
    if not (found.right or says_more or (found.code, cause.code) == ("unstable", "uninitialised")):
        return found
    if found.code in reasons.HARMFUL:  # the sanitizers' code alone does not say that the process would be harmed
        cause = cause._replace(details={**cause.details, "harm": found.code})
    return found._replace(cause=cause, precision=bound.INCORRECT)


def first_seconds(shape: ConvolutionShape) -> float:
    """Return the seconds after which a first call of one image hangs."""
    return max(_FIRST, 100 * _naive_seconds(shape))


def _naive_seconds(shape: ConvolutionShape) -> float:
    """Return how long a naive kernel takes for one image, at most."""
    return shape._replace(B=1).operations / 2 / _PRODUCTS


def few_images(threaded: bool) -> int:
    """Return the number of images per call on the CPU: enough for threads to interfere, if the file has threads."""
    return min(_MOST, max(_FEW, 2 * len(os.sched_getaffinity(0)))) if threaded else _FEW


def _together(found: Sequence[ShapeVerdict]) -> Optional[Cause]:
    """Return the cause that only a comparison of several layers shows, if there is one."""
    layers = [one for one in found if one.what != OTHER]
    right, wrong = [one for one in layers if one.right], [one for one in layers if not one.right]
    if not right or not wrong or any(one.code not in _UNEXPLAINED for one in wrong):
        return None
    sizes = {one.shape[2:] for one in right}  # of one size, nothing tells channels from fixed sizes
    if len(sizes) > 1 and all(one.shape.C == 1 for one in right) and all(one.shape.C > 1 for one in wrong):
        return Cause("several_channels")
    # Fixed sizes are correct for nothing but the layers of one edition.
    asked = {one.what.partition(", layer ")[0] for one in found}
    editions_right = {one.what.partition(", layer ")[0] for one in found if one.right}
    return Cause("fixed_sizes") if len(asked) > len(editions_right) == 1 else None
