"""Result of a run: predictions, correctness, and the times of the layers (`LayerResult`)."""

import hashlib
import platform
from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Optional, Tuple

import numpy as np

from . import _mxnet
from .inference.layer_times import LayerResult
from .library import bindings
from .system import process
from .version import __version__

if TYPE_CHECKING:
    from .judging.verdict import Verdict


class Result(NamedTuple):
    """Result of a run."""

    model: str
    n: int
    backend: str
    context: str  # where MXNet kept its tensors, "cpu" or "gpu"
    mode: str
    precision: str
    changed: Optional[int]  # number of predictions that differ from those in float32; None for float32
    operator: str
    kernel: str  # the requested kernel; `layers` has the names of the kernels that ran
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
    submission: "Optional[Verdict]" = None  # the verdict on the kernel file; None if the kernel is not a file
    expected: Optional[float] = None  # the model's known correctness on these images, if any
    normalisation: Optional[Dict[str, float]] = None  # scale, mean and std of pixels; None for pixels from 0 to 255
    # For each pass, the time in seconds that its threads waited for a processor, summed over the threads.
    waited: Tuple[Optional[float], ...] = ()

    @property
    def op_times(self) -> List[Tuple[str, float]]:
        """Pairs (name, median seconds) of the layers that run our operator, in network order."""
        return [(layer.name, layer.median) for layer in self.layers if layer.custom]

    def __repr__(self) -> str:
        """The run and its correctness, without the arrays."""
        ran = f"{self.model}, {self.n} images of {self.data_source}, {self.backend}, {self.mode} mode"
        verdict = f"; {self.submission.sentence}" if self.submission is not None else ""
        return f"<Result: {ran}: correctness {self.correctness}{verdict}>"

    def as_dict(self) -> Dict[str, Any]:
        """Return the JSON object that `run --json` prints, as a dictionary. Times are in seconds, memory in bytes."""
        used = process.usage()
        skipped = ("predictions", "labels", "scores", "layers", "images", "class_names", "submission")
        facts = {key: value for key, value in self._asdict().items() if key not in skipped}
        # A digest, because two runs with equal correctness may still have different predictions.
        facts["predictions_sha256"] = hashlib.sha256(self.predictions.astype("<i8").tobytes()).hexdigest()
        facts["layers"] = [layer.as_dict() for layer in self.layers]
        if self.submission is not None:
            facts["submission"] = self.submission.as_dict()
        facts["process"] = used._asdict()
        facts["versions"] = versions()
        return facts


def versions() -> Dict[str, str]:
    return {
        "fashion_infer": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "mxnet": _mxnet.load().__version__,
        "library": bindings.build_info(),
        "cpu_isa": bindings.cpu_isa(),
    }
