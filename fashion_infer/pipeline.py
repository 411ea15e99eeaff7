"""Runs a network for a request: checks it, loads data and model, executes, compares, judges, and makes the result."""

from concurrent import futures
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Callable, List, NamedTuple, Optional, Sequence, Tuple, TypeVar

import numpy as np

from . import _mxnet, devices
from .data import dataset, decoding
from .errors import CheckFailed, CheckpointError, DataError, DeviceError, UsageError
from .inference import model as models
from .inference.layer_times import LayerResult, merge
from .inference.model import LoadedModel
from .inference.predictor import GPU_BATCH_SIZE, Predictor
from .judging import judge as judges
from .judging.judge import Layer
from .judging.observer import RunObserver
from .judging.verdict import Verdict
from .kernel_files import formats, loading
from .kernel_files.loading import LoadedKernel
from .library import bindings, kernels
from .request import BlockRequest, Request
from .result import Result
from .system import isolation, process

Announce = Callable[[str], AbstractContextManager]
Between = Callable[[int], None]
Outcome = TypeVar("Outcome")


class Run(NamedTuple):
    """A request with its images, model and kernel loaded and its network bound to a device."""

    request: Request
    kernel: Optional[LoadedKernel]  # the request's kernel file; None if it names none
    images: dataset.Images
    model: LoadedModel
    chosen: devices.Choice
    network: Predictor
    pixels: np.ndarray  # (n,1,S,S) uint8: the images in the network's input size
    observer: Optional[RunObserver] = None  # of the kernel file's outputs

    @property
    def n(self) -> int:
        return len(self.images.images)


class Execution(NamedTuple):
    scores: np.ndarray  # (n, classes) float32
    predictions: np.ndarray  # (n,) int64
    layers: List[LayerResult]
    waited: Tuple[Optional[float], ...]  # for each pass, the seconds that its threads waited for a processor, summed


def check(request: Request) -> None:
    request.check()
    models.check(request)
    formats.insisted([request.kernel_file] if request.kernel_file else [], request.kernel_format)


def run(
    request: Request,
    images: Optional[dataset.Images] = None,
    model: Optional[LoadedModel] = None,
    kernel: Optional[LoadedKernel] = None,
    announce: Announce = nullcontext,
    between: Optional[Between] = None,
    judge: bool = True,
) -> Result:
    """Run the network that a request names on the request's images, or with what the caller has loaded.

    `announce` returns the context in which "fashion-mnist data" or "model" is loaded. `between` is called with the
    number of each pass before it, and with their count at the end; it controls a profiler. All options are checked
    before anything is loaded. CheckFailed if scores are not finite, or if a kernel file is harmful or fails in a call.
    """
    check(request)
    kernel = kernel or _load_kernel(request)
    placed = request if kernel is None else _with_kernel(request, kernel)
    kernels.check_kernel(str(placed.kernel), placed.backend)
    if placed.backend == "gpu":
        devices.choose(placed.backend, placed.device)  # raises DeviceError before anything is loaded
    images, model = load(placed, announce, images, model)
    with _mxnet.lock:
        bound = _bind(placed, images, model, kernel)
        # Nothing is judged here under a profiler, which would record the calls. `_judge` does it later.
        judged_now = judge and between is None
        alone = _alone(bound) if judged_now and kernel else None
        execution = execute(bound, between, bound.observer if judged_now else None)
        found = _judge(bound, execution, alone) if judge and kernel else None
        changed = None
        if request.precision != "float32":
            changed = compare(bound, execution.predictions, placed.but(precision="float32"))
    return _result(request, bound, execution, found, changed)


def run_in_blocks(
    request: BlockRequest,
    execute: Callable[[Optional[dataset.Images], LoadedModel], Outcome],
    load_images: bool = True,
    announce: Announce = nullcontext,
) -> Outcome:
    """Run a request whose images `execute` classifies in blocks; they are None if it reads or draws them itself."""
    check(request)
    images = None
    if load_images and request.source != dataset.SYNTHETIC:
        images = load_data(request, announce)
    return execute(images, load_model(request, announce))


def load_data(request: Request, announce: Announce = nullcontext) -> dataset.Images:
    # The built-in set is drawn with OpenBLAS. If another thread forked meanwhile, OpenBLAS would stay locked in the
    # child; a fork waits for MXNet's lock.
    with announce("fashion-mnist data"), _mxnet.lock:
        return dataset.load(request.n, request.data_dir, request.data, request.images, request.labels)


def load_model(request: Request, announce: Announce = nullcontext) -> LoadedModel:
    with announce("model"):  # MXNet's lock is not needed: h5py has a lock, for which a fork waits
        return models.load(request)


def load(
    request: Request,
    announce: Announce = nullcontext,
    images: Optional[dataset.Images] = None,
    model: Optional[LoadedModel] = None,
) -> Tuple[dataset.Images, LoadedModel]:
    """Return the request's images and model. Load what the caller does not pass."""
    images = images or load_data(request, announce)
    return images, model or load_model(request, announce)


def execute(run: Run, between: Optional[Between] = None, each: Optional[RunObserver] = None) -> Execution:
    """Run the network over all images, `repeat` times; CheckFailed if scores are not finite or a kernel file fails."""
    passes: List[List[LayerResult]] = []
    waits: List[Optional[float]] = []
    for index in range(run.request.repeat):
        if between is not None:
            between(index)
        before = process.waited()
        try:
            scores, times = run.network.predict(run.pixels, each)
        except DeviceError as error:
            if run.kernel is None:
                raise
            raise CheckFailed(f"{run.kernel.name} failed: {error}") from None
        after = process.waited()
        passes.append(times)
        waits.append(None if before is None or after is None else max(0.0, after - before))
    if between is not None:
        between(run.request.repeat)
    if run.kernel is None:  # the scores of a kernel file are judged instead
        check_scores(scores)
    return Execution(scores, scores.argmax(axis=1), merge(passes), tuple(waits))


def compare(run: Run, predictions: np.ndarray, other: Request) -> int:
    """Run the network on the same images with another request's options, and return how many predictions differ."""
    scores, _ = bind_network(other, run.model, run.chosen, run.n).predict(run.pixels)
    return int((predictions != scores.argmax(axis=1)).sum())


def _alone(run: Run) -> Verdict:
    """Judge a run's kernel file on each of the network's layers, in other processes; CheckFailed if it is harmful."""
    assert run.kernel is not None
    # One image through the library's own kernels shows the layers' sizes.
    request = run.request.but(kernel="auto", mode="operator", batch_size=None)
    _, times = bind_network(request, run.model, run.chosen, 1).predict(run.pixels[:1])
    logged = [(layer.name, layer.log[0]) for layer in times if layer.custom]
    layers = [Layer(name, records[0].shape) for name, records in logged if records]
    found = judges.check_layers(run.kernel, layers)
    if any(one.harmful for one in found.shapes):
        raise CheckFailed(found.sentence)
    if run.observer is not None:
        run.observer.expect(found)
    return found


def _judge(run: Run, execution: Execution, alone: Optional[Verdict]) -> Verdict:
    """Judge a run's kernel file by its outputs in the run, and on each layer alone."""
    assert run.observer is not None
    try:
        # The fused mode gives the same predictions as our kernels in operator mode, and is faster.
        changed = compare(run, execution.predictions, run.request.but(kernel="auto", mode="fused"))
        alone = alone or _alone(run)
        if not run.observer.images:  # a profiler's run is not disturbed by comparisons
            run.network.predict(run.pixels, run.observer)
    except DeviceError as error:
        raise CheckFailed(f"{run.observer.kernel.name} left the device in error: {error}") from None
    return run.observer.verdict(alone, changed)


def _load_kernel(request: Request) -> Optional[LoadedKernel]:
    path = request.kernel_file
    # A kernel file that is already loaded has a name that may look like a path. It is not loaded again.
    if path is None or (path in loading.names_of_loaded() and not Path(path).exists()):
        return None
    file = formats.recognise(path, request.kernel_format, request.backend)
    return loading.load(file, device=request.device)


def _with_kernel(request: Request, kernel: LoadedKernel) -> Request:
    multiple, size = kernel.batch_multiple, request.batch_size
    if multiple > 1 and size is None:
        size = max(1, GPU_BATCH_SIZE // multiple) * multiple
    return request.but(kernel=kernel.name, backend=kernel.backend, batch_size=size)


def _bind(request: Request, images: dataset.Images, model: LoadedModel, kernel: Optional[LoadedKernel]) -> Run:
    """Choose the request's device, bind its network to the device, and return everything that `execute` needs."""
    chosen = choose(request, model)
    if kernel is not None and kernel.host_memory:
        chosen = chosen._replace(context="cpu")  # the kernel copies by itself, and does not accept MXNet's GPU tensors
    network = bind_network(request, model, chosen, len(images.images), watched=kernel is not None)
    if kernel is not None and not network.custom_layers:
        raise UsageError(f"{model.label} runs MXNet's own convolution: add --op custom to run it with {kernel.name}")
    _check_classes(network.classes, images, model)
    observer = RunObserver(kernel, network.convolved) if kernel else None
    return Run(request, kernel, images, model, chosen, network, dataset.resized(images, model.input_size), observer)


def _result(
    request: Request, run: Run, execution: Execution, found: Optional[Verdict], changed: Optional[int]
) -> Result:
    images, model, chosen = run.images, run.model, run.chosen
    return Result(
        model=model.label,
        n=run.n,
        backend=chosen.backend,
        context=chosen.context,
        mode=run.request.mode_or_default,
        precision=request.precision,
        changed=changed,
        operator=model.operator,
        kernel=str(request.kernel),
        batch_size=min(run.network.batch_size, run.n),
        threads=bindings.thread_count(),
        correctness=int((execution.predictions == images.labels).sum()) / len(images.labels),
        predictions=execution.predictions,
        labels=images.labels,
        scores=execution.scores,
        layers=execution.layers,
        data_source=images.source,
        data_location=images.location,
        notice="; ".join(filter(None, (chosen.notice, model.checkpoint.notice))) or None,
        images=images.images,
        # The classes of a custom dataset have numbers as names.
        class_names=tuple(map(str, range(run.network.classes))) if images.source == dataset.OWN else model.class_names,
        submission=found,
        expected=models.expected(request, images.source, run.n),
        normalisation=model.normalisation and model.normalisation._asdict(),
        waited=execution.waited,
    )


def _check_classes(classes: int, images: dataset.Images, model: LoadedModel) -> None:
    """Raise DataError if one of your own labels is no class of the network, CheckpointError if class counts differ."""
    if images.source == dataset.OWN:
        highest = int(images.labels.max())
        if highest >= classes:
            raise DataError(
                f"{images.location} has labels up to {highest}, but {model.label} has {classes} classes: 0 to "
                f"{classes - 1}"
            )
    elif classes != len(model.class_names):
        known = len(model.class_names)
        raise CheckpointError(f"{model.label}: the network has {classes} classes, the images have {known}")


def check_scores(scores: np.ndarray) -> None:
    """Raise CheckFailed if scores are NaN or infinite, because predictions from such scores would be meaningless."""
    wrong = int((~np.isfinite(scores)).any(axis=1).sum())
    if wrong:
        raise CheckFailed(
            f"the scores of {wrong} of {len(scores)} images are NaN or infinite, so the predictions are meaningless: "
            "the network's weights are too large for its arithmetic"
        )


def choose(request: Request, model: LoadedModel) -> devices.Choice:
    """Choose where the request runs, load MXNet, and set the number of threads; MXNet keeps that of the first run."""
    bindings.set_threads(request.threads)
    _mxnet.set_threads(bindings.thread_count())
    mode = request.mode_or_default
    # In operator mode with MXNet's CPU build, a network without our operator has no part that could run on the GPU.
    idle = mode == "operator" and model.operator != "custom" and request.backend != "gpu"
    wanted = ("cpu" if idle else request.backend, request.device, mode)
    if wanted[0] == "cpu":
        _mxnet.load()
        chosen = devices.choose(*wanted)
    else:  # looking for a GPU initialises CUDA, which takes a while, so MXNet is imported at the same time
        with futures.ThreadPoolExecutor(1) as other:
            choosing = other.submit(devices.choose, *wanted)
            _mxnet.load()
        chosen = choosing.result()
    isolation.crash_plainly()
    return chosen


def bind_network(
    request: Request, model: LoadedModel, chosen: devices.Choice, count: int, watched: bool = False
) -> Predictor:
    return Predictor(
        model.checkpoint,
        input_shape=(1, model.input_size, model.input_size),
        backend=chosen.backend,
        device=request.device if chosen.backend == "gpu" else 0,
        context=chosen.context,
        kernel=str(request.kernel),
        batch_size=None if request.batch_size is None else min(request.batch_size, count),
        mode=request.mode_or_default,
        precision=request.precision,
        watched=watched,
    )


class Predictions(NamedTuple):
    images: np.ndarray  # (n,1,28,28) uint8: the pictures as converted for the network
    scores: np.ndarray  # (n, classes) float32: probabilities
    class_names: Tuple[str, ...]


def predict(paths: Sequence[str], request: Request, invert: Optional[bool] = None) -> Predictions:
    check(request)
    images = decoding.read(paths, invert)
    unlabelled = dataset.Images(images, np.zeros(len(images), np.uint8), "pictures", "")
    result = run(request, images=unlabelled)
    return Predictions(images, result.scores, result.class_names)
