"""Whether a kernel file is right, as far as a run shows: its layers beside the reference, predictions, memory."""

import math
from typing import Any, Callable, Dict, List, NamedTuple, Sequence, Tuple

from ..kernel_files.loading import LoadedKernel
from ..library import devices
from .diagnosis import Diagnosis
from .trials import Tried, try_shape

# A caching allocator, or a library's handle, takes memory only at the first calls. What takes a megabyte at every
# slice is never given back.
_LEAK = 1 << 20


class Verdict(NamedTuple):
    """What is known of a kernel file after a run."""

    kernel: LoadedKernel
    layers: Tuple[Tried, ...]  # each convolution of the network, under examination
    changed: int  # predictions that differ from those of the library's own kernels
    leaked: int  # bytes of device memory that every slice left allocated; 0 for none

    @property
    def precision(self) -> str:
        """The worst class of its layers: "float32", "tf32 or half", or "wrong"."""
        classes = [one.diagnosis.precision if one.diagnosis else "wrong" for one in self.layers]
        return next((name for name in ("wrong", "tf32 or half") if name in classes), "float32")

    @property
    def wrong(self) -> str:
        """What is wrong, in one line; "" for nothing. Predictions that rounded operands change are not."""
        for one in self.layers:
            if not one.right:
                predictions = f"{self.changed:,} predictions differ; " if self.changed else ""
                said = one.failure or f"layer {one.what}: {one.diagnosis.line() if one.diagnosis else ''}"
                return f"{self.kernel.name} is wrong: {predictions}{said}"
        if self.changed and self.precision == "float32":
            return (
                f"{self.kernel.name} is wrong: {self.changed:,} predictions differ, though each layer is right when it "
                "is called alone: results differ from call to call, or with what an earlier call left"
            )
        if self.leaked:
            return f"{self.kernel.name} leaks {self.leaked / 2**20:,.0f} MiB of device memory at every slice of images"
        return ""

    def as_dict(self) -> Dict[str, Any]:
        """For JSON."""
        return {
            "file": str(self.kernel.path),
            "format": self.kernel.format,
            "backend": self.kernel.backend,
            "precision": self.precision,
            "wrong": self.wrong,
            "changed": self.changed,
            "leaked": self.leaked,
            "layers": [
                {
                    "layer": one.what,
                    "shape": one.shape,
                    "failure": one.failure,
                    "findings": one.findings,
                    "diagnosis": one.diagnosis and _of_json(one.diagnosis),
                }
                for one in self.layers
            ],
        }


def _of_json(found: Diagnosis) -> Dict[str, Any]:
    """The diagnosis for JSON, which has neither NaN nor infinity."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in found._asdict().items()
    }


def judge(
    kernel: LoadedKernel,
    layers: Sequence[Tuple[str, Tuple[int, int, int, int, int, int]]],
    changed: int,
    leaked: int,
    device: int = 0,
) -> Verdict:
    """Call a kernel once more for each layer of a network, under examination, and compare with the reference.

    Parameters
    ----------
    kernel
        The file.
    layers
        Names and sizes B, C, H, W, M, K of the calls that the run made: a kernel may be correct only for few images.
    changed, leaked
        As in `Verdict`.
    device
        Index of the GPU that the run had.
    """
    tried = [try_shape(kernel, name, (C, H, M, K), B, device=device) for name, (B, C, H, _, M, K) in layers]
    return Verdict(kernel, tuple(tried), changed, leaked)


class MemoryWatch:
    """Device memory from slice to slice of a run."""

    def __init__(self, kernel: LoadedKernel, device: int):
        self._free: List[int] = []
        self._ask: Callable[[], int] = lambda: devices.cuda_devices()[device].memory_free
        self._on = kernel.backend == "gpu"

    def __call__(self) -> None:
        """After a slice."""
        if self._on:
            self._free.append(self._ask())

    @property
    def leaked(self) -> int:
        """Bytes that were not given back, on average over the slices behind the first."""
        steps = [before - after for before, after in zip(self._free, self._free[1:])]
        # One step says nothing: it may be the first slice of its size. Memory that comes back was another program's,
        # and what is taken once, however late, is kept to be used again.
        if len(steps) < 2 or min(steps) < 0 or 2 * sum(step >= _LEAK for step in steps) <= len(steps):
            return 0
        return sum(steps) // len(steps)
