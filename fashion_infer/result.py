"""Result of a run: predictions, correctness, and the time of every layer."""

import hashlib
import platform
import statistics
from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from . import __version__, _mxnet
from .inference.layer_times import LayerTime
from .library import build
from .library.op_times import OpTime
from .system import process

if TYPE_CHECKING:
    from .judging.verdict import Verdict


class LayerResult(NamedTuple):
    """A layer's times over the repeats of a run, each in seconds and summed over the slices."""

    name: str
    operator: str
    kernel: Optional[str]
    custom: bool
    seconds: Tuple[float, ...]
    upload: Tuple[float, ...]
    download: Tuple[float, ...]
    log: Tuple[Tuple[OpTime, ...], ...] = ()  # the library's records of each pass; not part of the JSON

    @property
    def median(self) -> float:
        """Median over the repeats, in seconds."""
        return statistics.median(self.seconds)

    @property
    def layer_seconds(self) -> Tuple[float, ...]:
        """Seconds of prolog, forward and epilog together, per pass; empty for a kernel without phases."""
        sums = tuple(sum(record.layer_seconds for record in records) for records in self.log)
        return sums if any(sums) else ()

    def as_dict(self) -> Dict[str, Any]:
        """Convert the layer's times to a dictionary for JSON."""
        facts = {key: value for key, value in self._asdict().items() if key != "log"}
        return {**facts, "layer_seconds": self.layer_seconds} if self.layer_seconds else facts


class Result(NamedTuple):
    """Result of a run."""

    model: str
    n: int
    backend: str
    context: str  # where MXNet kept its tensors, "cpu" or "gpu"
    mode: str
    precision: str
    changed: Optional[int]  # number of predictions that differ from those in float32, for other precisions
    operator: str
    kernel: str  # as requested; each layer names the kernel that ran
    batch_size: int
    threads: int
    correctness: float
    predictions: np.ndarray  # (n,) int64
    labels: np.ndarray  # (n,) integers
    scores: np.ndarray  # (n, classes) float32
    layers: List[LayerResult]
    data_source: str
    data_location: str
    notice: Optional[str]
    images: np.ndarray  # (n,1,s,s) uint8, before they were resized; 28x28 except in your own dataset
    class_names: Tuple[str, ...]
    submission: "Optional[Verdict]" = None  # whether the kernel is correct, if it is a kernel file
    expected: Optional[float] = None  # the model's known correctness on these images, if any
    normalisation: Optional[Dict[str, float]] = None  # scale, mean and std of pixels; None for 0 to 255
    waited: Tuple[Optional[float], ...] = ()  # per repeat: seconds that the threads waited for a processor, summed

    @property
    def op_times(self) -> List[Tuple[str, float]]:
        """(layer, median seconds) of each layer that runs our operator, in network order."""
        return [(layer.name, layer.median) for layer in self.layers if layer.custom]

    def __repr__(self) -> str:
        """The run and its correctness, without the arrays."""
        ran = f"{self.model}, {self.n} images of {self.data_source}, {self.backend}, {self.mode} mode"
        verdict = f"; {self.submission.sentence}" if self.submission is not None else ""
        return f"<Result: {ran}: correctness {self.correctness}{verdict}>"

    def as_dict(self) -> Dict[str, Any]:
        """Convert the result to the JSON object that `run --json` prints, with times in seconds and memory in bytes."""
        used = process.usage()
        skipped = ("predictions", "labels", "scores", "layers", "images", "class_names", "submission")
        facts = {key: value for key, value in self._asdict().items() if key not in skipped}
        # Two runs with equal correctness may still differ in single images.
        facts["predictions_sha256"] = hashlib.sha256(self.predictions.astype("<i8").tobytes()).hexdigest()
        facts["layers"] = [layer.as_dict() for layer in self.layers]
        if self.submission is not None:
            facts["submission"] = self.submission.as_dict()
        facts["process"] = used._asdict()
        facts["versions"] = versions()
        return facts


def merge(passes: Sequence[Sequence[LayerTime]]) -> List[LayerResult]:
    """Combine the layer times of all passes."""
    fields = ("seconds", "upload", "download", "log")
    return [
        LayerResult(
            times[0].name,
            times[0].operator,
            times[0].kernel,
            times[0].custom,
            *(tuple(getattr(time, field) for time in times) for field in fields),
        )
        for times in zip(*passes)
    ]


def versions() -> Dict[str, str]:
    """Return the versions of everything that can change a result."""
    return {
        "fashion_infer": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "mxnet": _mxnet.load().__version__,
        "library": build.build_info(),
        "cpu_isa": build.cpu_isa(),
    }
