"""`bench net --device all`: millions of images through one GPU, and through all GPUs of this host side by side.

Images come from a few buffers of pinned memory, again and again, so that the host's memory is the same whatever their
number; every batch travels to its device anew. A GPU has three threads, each with a fused network of its own: while
one waits for the end of its batch, the device works for another.
"""

import statistics
import time
from dataclasses import asdict, dataclass, field
from typing import Any, Callable, ClassVar, Dict, List, NamedTuple, Optional, Tuple

import numpy as np

from ..inference.sharing import share
from ..judging import reference
from ..library import build
from ..library import devices as library_devices
from ..library.fused import FusedNetwork
from . import random_network
from . import request as requests
from .machines import open_machine
from .machines.memory import check_memory, proc
from .random_network import RandomNetwork
from .records import NETWORKS

IMAGES, BATCH, REPEAT = 10_000_000, 100_000, 3
_LANES = 3  # threads a GPU
_BUFFERS = 4
_CHECKED = 256  # images compared with float64


class Request(NamedTuple):
    """What is measured: images in all and in a batch, and passes of each; none of them below 1."""

    edition: str = "fa2017"
    images: int = IMAGES
    batch: int = BATCH
    repeat: int = REPEAT


@dataclass
class Passes:
    """All images through some GPUs, several times."""

    gpus: Tuple[int, ...]
    seconds: List[float] = field(default_factory=list)
    grown: int = 0  # bytes by which the process's resident memory grew during a pass, at most

    @property
    def median(self) -> float:
        """Of the seconds."""
        return statistics.median(self.seconds)


@dataclass
class StreamResult:
    """What was measured."""

    benchmark: ClassVar[str] = NETWORKS
    not_compared: ClassVar[Dict[str, str]] = {}
    device: Dict[str, Any]  # the first GPU
    versions: Dict[str, str]
    command: str
    request: Request
    passes: List[Passes]  # of the first GPU, and of all where there are several
    resident: Optional[int] = None  # bytes of the process before the first pass
    reason: str = ""  # why it is wrong

    @property
    def wrong(self) -> List[str]:
        """What is wrong, in words."""
        return [self.reason] if self.reason else []

    def as_dict(self) -> Dict[str, Any]:
        """For JSON."""
        return {"benchmark": "stream", **asdict(self), "request": self.request._asdict()}


class _Lane:
    """A thread's network, and room for its predictions."""

    def __init__(self, network: RandomNetwork, gpu: int, classes: np.ndarray):
        self._fused = FusedNetwork(network.symbol, network.weights, shape=network.shape, backend="gpu", device=gpu)
        self._classes = classes

    def predict(self, images: np.ndarray, to: np.ndarray) -> None:
        """The predictions of a batch."""
        to[...] = self._fused.predict(images, out=self._classes[: len(images)])


def measure(request: Request, progress: Callable[[Passes], None] = lambda passes: None) -> StreamResult:
    """Time one GPU and all of them, in turns; every prediction of every pass is checked.

    Parameters
    ----------
    request
        What to measure.
    progress
        Called after each pass.

    Raises
    ------
    UsageError
        For an unknown edition, and for numbers below 1.
    DeviceError
        Without a GPU, or without PyTorch and CuPy; when memory does not suffice, or a GPU fails.
    """
    requests.at_least_one(images=request.images, batch=request.batch, repeat=request.repeat)
    network = random_network.build(request.edition)
    machine = open_machine("gpu")
    identity, versions = machine.describe([])
    batch = min(request.batch, request.images)
    check_memory(batch * int(np.prod(network.shape)) * (_BUFFERS + 3) + request.images)
    gpus = tuple(device.index for device in library_devices.cuda_devices())
    options = {"device": "all", "images": request.images, "batch": request.batch, "repeat": request.repeat}
    command = requests.command(NETWORKS, (request.edition,), "gpu", **options)
    sets = [gpus[:1], *([gpus] if len(gpus) > 1 else [])]
    versions = {"library": build.build_info(), **versions}
    result = StreamResult(identity, versions, command, request, [Passes(each) for each in sets])
    try:
        _measure(result, network, machine.tensors, batch, gpus, progress)
    except (MemoryError, RuntimeError) as error:
        raise requests.explained(error, "gpu") from error
    return result


def _measure(result: StreamResult, network: RandomNetwork, tensors, batch: int, gpus, progress) -> None:
    images = network.images(batch)
    ring = [tensors.pinned(np.roll(images, 97 * place, axis=0)) for place in range(_BUFFERS)]
    lanes = {
        gpu: [_Lane(network, gpu, tensors.pinned(np.empty(batch, np.int32))) for _ in range(_LANES)] for gpu in gpus
    }
    wanted = np.empty((_BUFFERS, batch), np.uint8)
    for buffer, predictions in zip(ring, wanted):
        lanes[gpus[0]][0].predict(buffer, predictions)
    result.reason = _wrong(network, images, wanted[0])
    predictions = np.full(result.request.images, 255, np.uint8)
    for each in lanes.values():  # allocates, and loads the kernels' code
        for lane in each:
            for count in {batch, len(predictions) % batch or batch}:
                lane.predict(ring[0][:count], predictions[:count])
    del images
    result.resident = _resident()
    for _ in range(result.request.repeat if not result.reason else 0):
        for passes in result.passes:
            predictions.fill(255)
            _one_pass(passes, [lane for gpu in passes.gpus for lane in lanes[gpu]], ring, predictions)
            different = _different(predictions, wanted)
            if different:
                result.reason = f"{different:,} of {len(predictions):,} predictions on {len(passes.gpus)} GPUs differ"
            progress(passes)


def _one_pass(passes: Passes, lanes: List[_Lane], ring, predictions: np.ndarray) -> None:
    batch, before, peaks = len(ring[0]), _resident(), []

    def work(lane, first):
        to = predictions[first : first + batch]
        lane.predict(ring[first // batch % len(ring)][: len(to)], to)
        peaks.append(_resident())

    start = time.perf_counter()
    share(lanes, range(0, len(predictions), batch), work)
    passes.seconds.append(time.perf_counter() - start)
    passes.grown = max(passes.grown, max(peaks) - before)


def _wrong(network: RandomNetwork, images: np.ndarray, predictions: np.ndarray) -> str:
    """Why predictions are wrong, compared with float64; "" when they are not."""
    picked = np.unique(np.linspace(0, len(images) - 1, _CHECKED).astype(int))
    logits = network.logits()
    want = reference.run(logits.layers, logits.weights, images[picked]).argmax(axis=1)
    changed = int((predictions[picked] != want).sum())
    return f"{changed} of {len(picked)} predictions differ from float64's" if changed else ""


def _different(predictions: np.ndarray, wanted: np.ndarray) -> int:
    """Predictions that are not those of their image."""
    buffers, batch = wanted.shape
    parts = (predictions[first : first + batch] for first in range(0, len(predictions), batch))
    return sum(int((part != wanted[place % buffers][: len(part)]).sum()) for place, part in enumerate(parts))


def _resident() -> int:
    """Bytes of this process in memory."""
    said = proc("self/status", "VmRSS")
    return int(said.split()[0]) * 1024 if said else 0
