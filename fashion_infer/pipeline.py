"""The one road through the house: data -> network -> predictions -> Result."""

import hashlib
import json
import platform
import statistics
from concurrent import futures
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

import numpy as np

from . import _mxnet, devices
from .checkpoints import checkpoint as checkpoints
from .checkpoints import editions, originals, zoo
from .data import dataset
from .errors import UsageError
from .graph import input_size, network
from .library import operators
from .measure import process
from .predictor import LayerTime, Predictor

MAX_THREADS = 1024


class Layer(NamedTuple):
    """A layer's times over the repeats of a run, each in seconds and summed over the slices."""

    name: str
    operator: str
    kernel: Optional[str]
    custom: bool
    seconds: Tuple[float, ...]
    upload: Tuple[float, ...]
    download: Tuple[float, ...]
    log: Tuple[Tuple[operators.OpTime, ...], ...] = ()  # the library's, of each pass; not part of the JSON

    @property
    def median(self) -> float:
        """Median over the repeats, in seconds."""
        return statistics.median(self.seconds)


class Network(NamedTuple):
    """A model as the user named it."""

    label: str  # what the output calls it
    checkpoint: checkpoints.Checkpoint
    operator: str  # "custom" or "builtin"
    input_size: int  # pixels a side
    operator_asked: bool = False  # whether the user named the operator

    @property
    def class_names(self) -> Tuple[str, ...]:
        """Of the edition that the network belongs to."""
        return editions.get(self.checkpoint.attributes.get("edition", "fa2017")).class_names


class Result(NamedTuple):
    """What a run found."""

    model: str
    n: int
    backend: str
    context: str  # where MXNet kept its tensors, "cpu" or "gpu"
    mode: str
    precision: str
    changed: Optional[int]  # predictions that differ from those of precision "float32", when that was not it
    operator: str
    kernel: str  # as asked for; each layer says what ran
    batch_size: int
    threads: int
    correctness: float
    predictions: np.ndarray  # (n,) int64
    labels: np.ndarray  # (n,) uint8
    scores: np.ndarray  # (n, classes) float32
    layers: List[Layer]
    data_source: str
    data_location: str
    notice: Optional[str]

    @property
    def op_times(self) -> List[Tuple[str, float]]:
        """(layer, median seconds) of each layer that is our operator, in the order of the network."""
        return [(layer.name, layer.median) for layer in self.layers if layer.custom]

    def as_dict(self) -> Dict[str, Any]:
        """The JSON object that `run --json` prints; times in seconds, memory in bytes."""
        used = process.usage()
        skipped = ("predictions", "labels", "scores", "layers")
        facts = {key: value for key, value in self._asdict().items() if key not in skipped}
        # Two runs that are right equally often may still differ in single images.
        facts["predictions_sha256"] = hashlib.sha256(self.predictions.astype("<i8").tobytes()).hexdigest()
        facts["layers"] = [{k: v for k, v in layer._asdict().items() if k != "log"} for layer in self.layers]
        facts["process"] = used._asdict()
        facts["versions"] = versions()
        return facts


def versions() -> Dict[str, str]:
    """Of everything that can change a result."""
    from . import __version__

    return {
        "fashion_infer": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "mxnet": _mxnet.load().__version__,
        "library": operators.build_info(),
        "cpu_isa": operators.cpu_isa(),
    }


def load_model(
    model: Optional[str] = None,
    checkpoint: Optional[str] = None,
    epoch: int = 1,
    operator: Optional[str] = None,
    edition: Optional[str] = None,
    weights: str = "shipped",
    side: Optional[int] = None,
) -> Network:
    """A shipped model by name, or a checkpoint by path.

    Parameters
    ----------
    model, edition
        A name of `zoo`; with an edition the short name of the time will do ("ece408" of fa2019). None is
        `zoo.default`'s model and edition.
    checkpoint, epoch
        In place of a model, see `checkpoint.load`.
    operator
        "custom" or "builtin" runs all convolution layers that way; None leaves them as they are.
    weights
        "shipped", or "original": the course's own, which must have been fetched.
    side
        Pixels a side of the network's input; None for the edition's, and for a checkpoint without one, what fits its
        first fully connected layer.

    Raises
    ------
    UsageError
        For an unknown name, or both of a name and a path.
    CheckpointError
        When the files are missing or damaged.
    """
    if model and checkpoint:
        raise UsageError("give either a model or a checkpoint, not both")
    if operator not in (None, "custom", "builtin"):
        raise UsageError(f"unknown operator '{operator}'; known: custom, builtin")
    if checkpoint:
        label, loaded = checkpoint, checkpoints.load(checkpoint, epoch)
    else:
        chosen = zoo.get(model, edition) if model else zoo.default(edition)
        label = chosen.short_name if edition else chosen.name  # scripts of the time know the short names
        loaded = originals.load(chosen.name) if weights == "original" else chosen.load()
    graph = network.parse(loaded.symbol, "the network")
    asked = operator is not None
    if operator is None:
        operator = "custom" if network.convolution_layers(graph, network.CUSTOM_OPERATOR) else "builtin"
    else:
        graph = network.with_operator(graph, operator)
        loaded = loaded._replace(symbol=json.dumps(graph))
    if side is None and "edition" in loaded.attributes:
        side = editions.get(loaded.attributes["edition"]).input_size
    return Network(label, loaded, operator, side or input_size.infer(graph, loaded.weights), asked)


def run(
    net: Network,
    images: dataset.Images,
    backend: str = "auto",
    kernel: str = "auto",
    batch_size: Optional[int] = None,
    threads: Optional[int] = None,
    device: int = 0,
    repeat: int = 1,
    mode: Optional[str] = None,
    precision: str = "float32",
    between: Optional[Callable[[int], None]] = None,
) -> Result:
    """Run a network over images.

    Parameters
    ----------
    net, images
        From `load_model` and `dataset.load`.
    backend, device
        "auto", "cpu" or "gpu", and the GPU's index.
    kernel
        The variant of our operator, or "auto".
    batch_size
        Images a slice.
    threads
        CPU threads, for our operator and MXNet's; None for the cores that this process may use. MXNet keeps the
        number of the first run in a process.
    repeat
        How often all images are run; every pass's times are kept.
    mode
        "fused" or "operator"; None for the fused one, or the operator one when a kernel or an operator was named:
        the fused mode has kernels of its own, and runs both operators alike.
    precision
        "float32", or in fused mode on a GPU "tf32" or "fp16"; the result then says how many predictions changed.
    between
        Called before each pass with its number, from 0, and after the last one: where a profiler goes on and off.

    Raises
    ------
    UsageError, CheckpointError, DeviceError
    """
    if repeat < 1:
        raise UsageError(f"repeat must be at least 1, not {repeat}")
    if threads is not None and not 1 <= threads <= MAX_THREADS:
        raise UsageError(f"threads must be 1 to {MAX_THREADS}, not {threads}")
    if mode is None:
        mode = "operator" if kernel != "auto" or net.operator_asked else "fused"
    # In operator mode a network without our operator has nothing that could run on the GPU (MXNet's CPU build).
    idle = mode == "operator" and net.operator != "custom" and backend != "gpu"
    operators.set_threads(threads)
    _mxnet.set_threads(operators.threads())
    # Looking for a GPU starts CUDA up, 0.2 s on an H200: meanwhile MXNet is imported.
    with futures.ThreadPoolExecutor(1) as other:
        choosing = other.submit(devices.choose, "cpu" if idle else backend, device, mode)
        _mxnet.load()
    chosen = choosing.result()
    pixels = dataset.resized(images, net.input_size)

    def bound(precision: str) -> Predictor:
        return Predictor(
            net.checkpoint,
            input_shape=(1, net.input_size, net.input_size),
            backend=chosen.backend,
            device=device,
            context=chosen.context,
            kernel=kernel,
            batch_size=None if batch_size is None else min(batch_size, len(images.images)),
            mode=mode,
            precision=precision,
        )

    predictor = bound(precision)
    passes: List[List[LayerTime]] = []
    for index in range(repeat):
        if between is not None:
            between(index)
        scores, times = predictor.predict(pixels)
        passes.append(times)
    if between is not None:
        between(repeat)
    predictions = scores.argmax(axis=1)
    changed = None
    if precision != "float32":
        changed = int((predictions != bound("float32").predict(pixels)[0].argmax(axis=1)).sum())
    return Result(
        model=net.label,
        n=len(images.images),
        backend=chosen.backend,
        context=chosen.context,
        mode=mode,
        precision=precision,
        changed=changed,
        operator=net.operator,
        kernel=kernel,
        batch_size=min(predictor.batch_size, len(images.images)),
        threads=operators.threads(),
        correctness=int((predictions == images.labels).sum()) / len(images.labels),
        predictions=predictions,
        labels=images.labels,
        scores=scores,
        layers=[_merge(layer) for layer in zip(*passes)],
        data_source=images.source,
        data_location=images.location,
        notice=chosen.notice,
    )


def _merge(times: Tuple[LayerTime, ...]) -> Layer:
    first = times[0]
    return Layer(
        first.name,
        first.operator,
        first.kernel,
        first.custom,
        *(tuple(getattr(t, field) for t in times) for field in ("seconds", "upload", "download", "log")),
    )


def infer(
    model: Optional[str] = None,
    n: int = dataset.TEST_SIZE,
    backend: str = "auto",
    checkpoint: Optional[str] = None,
    epoch: int = 1,
    operator: Optional[str] = None,
    edition: Optional[str] = None,
    weights: str = "shipped",
    side: Optional[int] = None,
    data_dir: Optional[str] = None,
    data: Optional[str] = None,
    **options: Any,
) -> Result:
    """Everything in one call: load the first n test images and a model, run it, compare with the labels.

    Parameters
    ----------
    model, checkpoint, epoch, operator, edition, weights, side
        See `load_model`; the default model is ece408-high.
    n
        1 to 10,000.
    backend
        "auto", "cpu" or "gpu".
    data_dir, data
        See `dataset.load`.
    **options
        kernel, batch_size, threads, device, repeat, mode and precision, as `run` takes them.

    Returns
    -------
    Result
        With correctness, op_times, predictions, scores, ...

    Raises
    ------
    fashion_infer.errors.FashionInferError
        One of its kinds, with a message that says what to do.

    Examples
    --------
    >>> from fashion_infer import infer
    >>> infer(model="ece408-high", n=100, backend="cpu").correctness  # doctest: +SKIP
    """
    images = dataset.load(n, data_dir, data)
    net = load_model(model, checkpoint, epoch, operator, edition, weights, side)
    return run(net, images, backend, **options)
