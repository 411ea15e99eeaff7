"""Verdict on a kernel file after a run: its errors against the reference, changed predictions, and leaked memory."""

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ..kernel_files.loading import LoadedKernel
from ..library import devices
from ..system import process_memory
from .buffers import Size
from .calls import Tried, try_shape

# Bytes per slice from which on a file leaks memory. A caching allocator or a library's handle allocates only in the
# first calls, but a file that allocates a megabyte in every slice leaks it.
_LEAK = 1 << 20


class Verdict(NamedTuple):
    """Findings about a kernel file after a run."""

    kernel: LoadedKernel
    layers: Tuple[Tried, ...]  # the trial of each convolution of the network
    changed: int  # number of predictions that differ from those of the library's own kernels
    leaked: int  # bytes of device memory that leak per slice, on average; 0 if none

    @property
    def precision(self) -> str:
        """The worst class of its layers: "float32", "tf32 or half", or "wrong"."""
        classes = [
            "wrong" if not one.right or one.diagnosis is None else one.diagnosis.precision for one in self.layers
        ]
        return next((name for name in ("wrong", "tf32 or half") if name in classes), "float32")

    @property
    def wrong(self) -> str:
        """The faults in one line; "" if none. Predictions that change because of rounded operands are not faults."""
        for one in self.layers:
            if not one.right:
                predictions = f"{self.changed:,} predictions differ; " if self.changed else ""
                return f"{self.kernel.name} is incorrect: {predictions}layer {one.what}: {one.line()}"
        if self.changed and self.precision == "float32":
            return (
                f"{self.kernel.name} differs between calls: {self.changed:,} predictions differ, though each layer is "
                "correct when it is called alone: it keeps weights or results of an earlier call, or a copy (to a "
                "symbol, on another stream) is not ordered with the launch"
            )
        return ""

    @property
    def sentence(self) -> str:
        """The verdict in one sentence."""
        return self.wrong or f"{self.kernel.name} is correct ({self.precision})"

    def as_dict(self) -> Dict[str, Any]:
        """Convert the verdict to a dictionary for JSON."""
        return {
            "file": str(self.kernel.path),
            "format": self.kernel.format,
            "backend": self.kernel.backend,
            "verdict": self.sentence,
            "precision": self.precision,
            "wrong": self.wrong,
            "changed": self.changed,
            "leaked": self.leaked,
            "layers": [{"layer": one.what, **one.as_dict()} for one in self.layers],
        }


def judge(
    kernel: LoadedKernel, tried: Sequence[Tried], layers: Sequence[Tuple[str, Size]], changed: int, leaked: int
) -> Verdict:
    """Call a kernel again, with the batch size of a run, on each layer that was correct with fewer images.

    Parameters
    ----------
    kernel
        The file.
    tried
        The trials of the layers.
    layers
        Names and sizes B, C, H, W, M, K of the run's calls. A kernel may be correct only for few images.
    changed, leaked
        As in `Verdict`.
    """
    sizes = dict(layers)
    judged = []
    for one in tried:
        B, C, H, _, M, K = sizes[one.what]
        many = try_shape(kernel, one.what, (C, H, M, K), B, device=kernel.device, once=True) if one.right else one
        judged.append(many._replace(findings=tuple(dict.fromkeys(one.findings + many.findings))))
    return Verdict(kernel, tuple(judged), changed, leaked)


class MemoryWatch:
    """Record of the used device memory after each slice of a run: this process's, or the whole device's if unknown."""

    def __init__(self, kernel: LoadedKernel, device: int):
        self._free: List[int] = []
        self._own: List[Optional[int]] = []
        self._ask: Callable[[], int] = lambda: devices.cuda_devices()[device].memory_free
        self._on = kernel.backend == "gpu"

    def __call__(self) -> None:
        """Record the memory after a slice."""
        if self._on:
            self._free.append(self._ask())
            self._own.append(process_memory.own())

    @property
    def leaked(self) -> int:
        """Leaked bytes, averaged over the slices after the first."""
        own = [used for used in self._own if used is not None]
        free = [-used for used in own] if len(own) == len(self._free) else self._free
        steps = [before - after for before, after in zip(free, free[1:])]
        # A leak is reported only if most slices take memory and no slice frees any. A single increase may be memory
        # that is kept for reuse, and a decrease may be due to another program.
        if len(steps) < 2 or min(steps) < 0 or 2 * sum(step >= _LEAK for step in steps) <= len(steps):
            return 0
        return sum(steps) // len(steps)
