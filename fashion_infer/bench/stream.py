"""`bench net --device all`: classifies millions of images with one GPU, and with all GPUs of this host concurrently.

The images are taken repeatedly from a few pinned buffers, and every batch is copied to its device again. Each GPU has
three threads with a fused network each: while one waits for its batch, the device works on another's.
"""

import time
from dataclasses import asdict, dataclass, field
from typing import Any, Callable, Dict, List, Optional, Tuple

import numpy as np

from ..errors import UsageError
from ..judging import networks
from ..library import devices as library_devices
from ..library.fused import FusedNetwork
from ..system.sharing import share
from . import random_network
from .machines.memory import check_memory, proc
from .protocol import Benchmark, Trial
from .random_network import RandomNetwork
from .records import NETWORKS, OURS, STREAM, WRONG, BenchCase, BenchResult, Measurement
from .timing import Contender

IMAGES, BATCH, REPEAT = 10_000_000, 100_000, 3
_LANES = 3  # number of threads per GPU
_BUFFERS = 4
_CHECKED = 256  # number of images of the first buffer that are compared with float64


@dataclass
class StreamPasses:
    """Times of several passes of all images through the same GPUs."""

    gpus: Tuple[int, ...]
    seconds: List[float] = field(default_factory=list)
    grown: int = 0  # largest growth of the process's resident memory during a pass, in bytes

    @property
    def name(self) -> str:
        """Name of the GPUs in tables."""
        return "1 GPU" if len(self.gpus) == 1 else f"{len(self.gpus)} GPUs"


@dataclass
class StreamResult(BenchResult):
    """Result of `bench net --device all`: one case, with a row for one GPU and a row for all GPUs."""

    passes: List[StreamPasses] = field(default_factory=list)  # with one GPU, then with all if there are several
    resident: Optional[int] = None  # resident memory of the process before the first pass, in bytes

    def as_dict(self) -> Dict[str, Any]:
        (case,) = self.cases
        request = {"edition": case.edition, "images": case.batch, "batch": self.batches[0], "repeat": self.repeat}
        reason = next((row.reason for row in case.rows if row.status == WRONG), "")
        return {
            "benchmark": "stream",
            "device": self.device,
            "versions": self.versions,
            "command": self.command,
            "request": request,
            "passes": [asdict(passes) for passes in self.passes],
            "resident": self.resident,
            "reason": reason,
        }


class _Lane:
    """One thread's network and buffer for predictions."""

    def __init__(self, network: RandomNetwork, gpu: int, classes: np.ndarray):
        self._fused = FusedNetwork(network.symbol, network.weights, shape=network.shape, backend="gpu", device=gpu)
        self._classes = classes

    def predict(self, images: np.ndarray, to: np.ndarray) -> None:
        """Predict the classes of a batch, and write them to `to`."""
        to[...] = self._fused.predict(images, out=self._classes[: len(images)])


class Stream(Benchmark):
    """Benchmark of one GPU and of all GPUs, which take turns. Every prediction of every pass is checked."""

    name = NETWORKS
    peers = ()
    result_type = StreamResult

    def check(self) -> None:
        """Refuse more than one edition or batch size, fill in defaults, and build the network."""
        asked = self.request
        if len(asked.editions) > 1 or len(asked.batches) > 1:
            raise UsageError("--device all measures one edition with one --batch")
        self.request = asked._replace(
            backend="gpu",
            batches=asked.batches or (BATCH,),
            repeat=REPEAT if asked.repeat is None else asked.repeat,
            images=IMAGES if asked.images is None else asked.images,
        )
        self._network = random_network.build(asked.editions[0])

    def cases(self) -> List[BenchCase]:
        assert self.request.images is not None
        self._images = self.request.images
        self._batch = min(self.request.batches[0], self._images)
        check_memory(self._batch * int(np.prod(self._network.shape)) * (_BUFFERS + 3) + self._images)
        return [BenchCase(self.request.editions[0], STREAM, self._images, 0)]

    def options(self) -> Dict[str, Any]:
        asked = self.request
        given = {"device": "all", "images": asked.images, "batch": asked.batches[0], "repeat": asked.repeat}
        return {"edition": asked.editions, **given}

    def prepare(self, case: BenchCase, index: int) -> Trial:
        """Fill the buffers, check predictions for the first one against float64, and run every network once."""
        gpus = tuple(device.index for device in library_devices.cuda_devices())
        result, network, tensors = self.result, self._network, self.machine.tensors
        result.batches = list(self.request.batches)
        result.passes = [StreamPasses(each) for each in (gpus[:1], *([gpus] if len(gpus) > 1 else []))]
        images = network.images(self._batch)
        self._ring = [tensors.pinned(np.roll(images, 97 * place, axis=0)) for place in range(_BUFFERS)]
        lanes = {
            gpu: [_Lane(network, gpu, tensors.pinned(np.empty(self._batch, np.int32))) for _ in range(_LANES)]
            for gpu in gpus
        }
        self._wanted = np.empty((_BUFFERS, self._batch), np.uint8)
        for buffer, predictions in zip(self._ring, self._wanted):
            lanes[gpus[0]][0].predict(buffer, predictions)
        self._predictions = np.full(self._images, 255, np.uint8)
        for lane in (lane for each in lanes.values() for lane in each):  # first runs allocate memory and load kernels
            for count in {self._batch, self._images % self._batch or self._batch}:
                lane.predict(self._ring[0][:count], self._predictions[:count])
        reason = _why_wrong(network, images, self._wanted[0])
        case.checked = min(_CHECKED, self._batch)
        result.resident = _resident()
        timed = []
        for passes in result.passes:
            row = Measurement(passes.name, OURS, precision="float32")
            case.rows.append(row)
            if reason:
                row.status, row.reason = WRONG, reason
                continue
            timed.append(Contender(passes.name, self._one_pass(passes, lanes, row)))
        return Trial(None, timed, {})

    def time(self, trial: Trial, repeat: int, tick: Callable[[float], None]) -> Dict[Contender, List[float]]:
        """Time passes over all images, in turn with one GPU and with all GPUs. There is no warm-up pass."""
        times: Dict[Contender, List[float]] = {contender: [] for contender in trial.timed}
        for turn in range(repeat):
            for place, contender in enumerate(trial.timed):
                times[contender].append(contender.run())
                tick((turn + (place + 1) / len(trial.timed)) / repeat)
        return times

    def _one_pass(self, passes: StreamPasses, lanes: Dict[int, List[_Lane]], row: Measurement) -> Callable[[], float]:
        """Return a function that sends all images through the GPUs of `passes` and returns its time in seconds."""
        batch, predictions, ring = self._batch, self._predictions, self._ring

        def run() -> float:
            predictions.fill(255)
            before, peaks = _resident(), []

            def work(lane, first):
                to = predictions[first : first + batch]
                lane.predict(ring[first // batch % len(ring)][: len(to)], to)
                peaks.append(_resident())

            start = time.perf_counter()
            share([lane for gpu in passes.gpus for lane in lanes[gpu]], range(0, len(predictions), batch), work)
            passes.seconds.append(time.perf_counter() - start)
            passes.grown = max(passes.grown, max(peaks) - before)
            different = _count_different(predictions, self._wanted)
            if different:
                row.status, row.reason = WRONG, f"{different:,} of {len(predictions):,} predictions differ"
            return passes.seconds[-1]

        return run


def _why_wrong(network: RandomNetwork, images: np.ndarray, predictions: np.ndarray) -> str:
    """Compare predictions with float64 and return why they are incorrect; "" if they are correct."""
    picked = np.unique(np.linspace(0, len(images) - 1, _CHECKED).astype(int))
    logits = network.logits()
    want = networks.run(logits.layers, logits.weights, images[picked]).argmax(axis=1)
    changed = int((predictions[picked] != want).sum())
    return f"{changed} of {len(picked)} predictions differ from float64's" if changed else ""


def _count_different(predictions: np.ndarray, wanted: np.ndarray) -> int:
    buffers, batch = wanted.shape
    parts = (predictions[first : first + batch] for first in range(0, len(predictions), batch))
    return sum(int((part != wanted[place % buffers][: len(part)]).sum()) for place, part in enumerate(parts))


def _resident() -> int:
    said = proc("self/status", "VmRSS")
    return int(said.split()[0]) * 1024 if said else 0
