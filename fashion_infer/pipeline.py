"""The one road through the house: data -> model -> predictor -> Result. Every command that runs a network takes it."""

from concurrent import futures
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Callable, List, Optional, Tuple, Union, cast

import numpy as np

from . import _mxnet, devices
from . import result as results
from .data import dataset
from .errors import CheckFailed, CheckpointError, DataError, DeviceError, UsageError
from .inference import model as models
from .inference.layer_times import LayerTime
from .inference.model import LoadedModel
from .inference.predictor import GPU_BATCH_SIZE, Predictor
from .inference.spread import NODES, SpreadPredictor
from .kernel_files import paths
from .library import kernels, thread_pool
from .request import Request
from .result import Result
from .system import isolation, scheduler_stats

_MOST_DEVICES = 8  # that run at the same time through MXNet; more take turns

Announce = Callable[[str], AbstractContextManager]
Between = Callable[[int], None]
Network = Union[Predictor, SpreadPredictor]


def run(
    request: Request,
    images: Optional[dataset.Images] = None,
    model: Optional[LoadedModel] = None,
    announce: Announce = nullcontext,
    between: Optional[Between] = None,
    judge: bool = True,
) -> Result:
    """Run a request from its options to its result.

    Parameters
    ----------
    request
        All options; checked first.
    images, model
        What the request would load, where the caller has it already.
    announce
        Gives a context for each part that loads something, from what is loaded: "fashion-mnist data" or "model".
    between
        Called before each pass with its number, from 0, and after the last one: where a profiler goes on and off.
    judge
        Whether a kernel file is compared with the reference afterwards, layer by layer, and its predictions with those
        of the library's own kernels: `Result.submission`.

    Raises
    ------
    UsageError, DataError, CheckpointError, DeviceError
        Nothing is loaded before all options are checked.
    CheckFailed
        When scores are not numbers, or a call of a kernel file fails or leaves the device in error.
    """
    request.check()
    given, file = request, None
    if paths.is_path(request.kernel) and not _loaded(request.kernel):
        request, file = _with_file(request)
    kernels.check_kernel(request.kernel, request.backend)
    images, model = load(request, announce, images, model)
    with _mxnet.lock:
        return _run(request, given.kernel, file, images, model, between, judge)


def _run(
    request: Request,
    kernel: str,
    file: Any,
    images: dataset.Images,
    model: LoadedModel,
    between: Optional[Between],
    judge: bool,
) -> Result:
    """The same, once all is loaded; `kernel` is what the request called it, `file` the loaded kernel file or None."""
    chosen = choose(request, model)
    if file is not None and file.host_memory:
        chosen = chosen._replace(context="cpu")  # it copies by itself, and takes no tensors of MXNet's on a GPU
    predictor = _bound(request, model, chosen, len(images.images))
    if file is not None and not predictor.custom_layers:
        raise UsageError(f"{model.label} runs MXNet's own convolution: add --op custom to run it with {file.name}")
    _check_classes(predictor.classes, images, model)
    pixels = dataset.resized(images, model.input_size)
    memory = file and _judging().MemoryWatch(file, request.device)
    passes: List[List[LayerTime]] = []
    waits: List[Optional[float]] = []
    for index in range(request.repeat):
        if between is not None:
            between(index)
        before = scheduler_stats.waited()
        try:
            scores, times = predictor.predict(pixels, memory)
        except DeviceError as error:
            if file is None:
                raise
            raise CheckFailed(f"{file.name} failed: {error}") from None
        after = scheduler_stats.waited()
        passes.append(times)
        waits.append(None if before is None or after is None else max(0.0, after - before))
    if between is not None:
        between(request.repeat)
    if file is None:
        check_scores(scores)
    predictions = scores.argmax(axis=1)
    layers = results.merge(passes)
    verdict = None
    if file is not None and memory is not None and judge:
        # The fused mode gives the same predictions in a third of the time.
        ours = _bound(request.but(kernel="auto", mode="fused"), model, chosen, len(images.images))
        try:
            differ = int((predictions != ours.predict(pixels)[0].argmax(axis=1)).sum())
        except DeviceError as error:
            raise CheckFailed(f"{file.name} left the device in error: {error}") from None
        called = [(layer.name, layer.log[0][0].shape) for layer in layers if layer.custom and layer.log[0]]
        verdict = _judging().judge(file, called, differ, memory.leaked, request.device)
    changed = None
    if request.precision != "float32":
        exact = _bound(request.but(precision="float32"), model, chosen, len(images.images))
        changed = int((predictions != exact.predict(pixels)[0].argmax(axis=1)).sum())
    return Result(
        model=model.label,
        n=len(images.images),
        backend=chosen.backend,
        context=chosen.context,
        mode=request.mode_or_default,
        precision=request.precision,
        changed=changed,
        operator=model.operator,
        kernel=kernel,
        batch_size=min(predictor.batch_size, len(images.images)),
        threads=thread_pool.size(),
        correctness=int((predictions == images.labels).sum()) / len(images.labels),
        predictions=predictions,
        labels=images.labels,
        scores=scores,
        layers=layers,
        data_source=images.source,
        data_location=images.location,
        notice="; ".join(filter(None, (chosen.notice, model.checkpoint.notice))) or None,
        images=images.images,
        class_names=_names(images, model, scores.shape[1]),
        submission=verdict,
        expected=models.expected(request, images.source, len(images.images)),
        waited=tuple(waits),
    )


def _names(images: dataset.Images, model: LoadedModel, classes: int) -> Tuple[str, ...]:
    """Of the classes: those of Fashion-MNIST are not those of another dataset."""
    return tuple(map(str, range(classes))) if images.source == dataset.OWN else model.class_names


def _check_classes(classes: int, images: dataset.Images, model: LoadedModel) -> None:
    """Raise where no prediction could meet some labels: DataError for a dataset of one's own, else CheckpointError."""
    if images.source == dataset.OWN:
        highest = int(images.labels.max())
        if highest >= classes:
            raise DataError(
                f"{images.location} has labels up to {highest}, but {model.label} tells {classes} classes apart: 0 to "
                f"{classes - 1}"
            )
    elif classes != len(model.class_names):
        known = len(model.class_names)
        raise CheckpointError(f"{model.label}: the network tells {classes} classes apart, the images are of {known}")


def check_scores(scores: np.ndarray) -> None:
    """Raise CheckFailed when scores are NaN or infinite: the class with the highest one would mean nothing."""
    wrong = int((~np.isfinite(scores)).any(axis=1).sum())
    if wrong:
        raise CheckFailed(
            f"the scores of {wrong} of {len(scores)} images are not numbers (NaN or infinite): the network's weights "
            "are too large for its arithmetic, and its predictions would mean nothing"
        )


def _judging():
    """The module that judges kernel files: only who has one imports it."""
    from .judging import verdict

    return verdict


def _loaded(kernel: str) -> bool:
    """Whether this is the name of a kernel file that this process has loaded, and no path."""
    from .kernel_files import loading

    return kernel in loading.names_of_loaded() and not Path(kernel).exists()


def _with_file(request: Request):
    """The request with its kernel file loaded, and called by its name; and the file."""
    from .kernel_files import loading

    backend = loading.backend_of(request.kernel, request.kernel_format, request.backend)
    device = cast(int, request.device)  # the request refuses `all` beside a kernel file
    file = loading.load(request.kernel, request.kernel_format, backend, device=device)
    slices = request.batch_size or max(1, GPU_BATCH_SIZE // file.batch_multiple) * file.batch_multiple
    batch_size = slices if file.batch_multiple > 1 else request.batch_size
    return request.but(kernel=file.name, backend=file.backend, batch_size=batch_size), file


def load(
    request: Request,
    announce: Announce = nullcontext,
    images: Optional[dataset.Images] = None,
    model: Optional[LoadedModel] = None,
) -> Tuple[dataset.Images, LoadedModel]:
    """The request's images and its model, loaded where the caller does not give them; arguments as `run` takes them."""
    if images is None:
        # The built-in set is drawn with OpenBLAS, whose lock does not survive a fork in another thread.
        with announce("fashion-mnist data"), _mxnet.lock:
            images = dataset.load(request.n, request.data_dir, request.data, request.images, request.labels)
    if model is None:
        with announce("model"):  # without the lock: h5py has one of its own, which a fork takes first
            model = models.load(request)
    return images, model


def choose(request: Request, model: LoadedModel) -> devices.Choice:
    """Where the request runs, with MXNet loaded and all threads set.

    MXNet keeps the number of threads of the first run in a process.
    """
    thread_pool.resize(request.threads)
    _mxnet.set_threads(thread_pool.size())
    if request.device == devices.ALL:
        _mxnet.set_networks(_MOST_DEVICES)
    mode = request.mode_or_default
    # In operator mode a network without our operator has nothing that could run on the GPU (MXNet's CPU build).
    idle = mode == "operator" and model.operator != "custom" and request.backend != "gpu"
    wanted = ("cpu" if idle else request.backend, request.device, mode)
    if wanted[0] == "cpu":
        _mxnet.load()
        chosen = devices.choose(*wanted)
    else:  # looking for a GPU starts CUDA up, 0.2 s on an H200: meanwhile MXNet is imported
        with futures.ThreadPoolExecutor(1) as other:
            choosing = other.submit(devices.choose, *wanted)
            _mxnet.load()
        chosen = choosing.result()
    isolation.crash_plainly()
    return chosen


def _bound(request: Request, model: LoadedModel, chosen: devices.Choice, count: int) -> Network:
    places = devices.indices(request.device) if chosen.backend == "gpu" else (0,)
    bound = [
        Predictor(
            model.checkpoint,
            input_shape=(1, model.input_size, model.input_size),
            backend=chosen.backend,
            device=place,
            context=chosen.context,
            kernel=request.kernel,
            batch_size=None if request.batch_size is None else min(request.batch_size, count),
            mode=request.mode_or_default,
            precision=request.precision,
            first_node=index * NODES,
        )
        for index, place in enumerate(places)
    ]
    return bound[0] if len(bound) == 1 else SpreadPredictor(bound, count)
