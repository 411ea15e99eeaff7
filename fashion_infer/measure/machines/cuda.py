"""A CUDA device as a place to benchmark on: tensors of PyTorch or CuPy, our kernels on their pointers and stream."""

from typing import Dict, List, Tuple

import numpy as np

from ... import devices
from ...library import operators
from ..peers import cuda_peers
from ..rows import LIMIT, Contender
from . import cuda_tensors


class Cuda:
    """One CUDA device.

    Raises
    ------
    DeviceError
        When there is no such device, or neither PyTorch nor CuPy can use it.
    """

    backend = "gpu"
    slow = 8e-3  # seconds a run
    default_batch, default_repeat = 10000, 20
    peer_names = ("cudnn",)

    def __init__(self, device: int = 0):
        devices.choose("gpu", device)  # raises when there is none
        self.device = operators.cuda_devices()[device]
        self.tensors = cuda_tensors.find(device)

    def describe(self) -> Tuple[Dict, Dict]:
        """What identifies this device, and versions."""
        device = self.device._asdict()
        del device["memory_free"]
        return device, {"numpy": np.__version__, **self.tensors.versions()}

    def load(self, x: np.ndarray, weight: np.ndarray, y_shape) -> None:
        """Take one layer's tensors, both float32, and make room for its output."""
        self.x = self.weight = self.y = None  # the last layer's memory first
        self._conv = operators.describe(x.shape, weight.shape)
        self.x, self.weight = self.tensors.put(x), self.tensors.put(weight)
        self.y = self.tensors.empty(y_shape)
        self._output_bytes = 4 * int(np.prod(y_shape))

    def kernel(self, name: str) -> Contender:
        """A kernel of the library on the loaded layer."""
        tensors = self.tensors
        pointers = [tensors.pointer(t) for t in (self.x, self.weight, self.y)]

        def run():
            operators.launch(name, self._conv, *pointers, tensors.stream())
            return self.y

        return Contender(name, run, tensors.take)

    def poison(self) -> None:
        """Fill the output with NaN."""
        self.tensors.fill(self.y, float("nan"))

    def complete(self) -> bool:
        """Wait for the device; whether nothing of the output is NaN."""
        return not self.tensors.has_nan(self.y)

    def limits(self) -> List[Tuple[Contender, int]]:
        """Contenders that only move memory, with the bytes that each moves."""
        tensors, spare = self.tensors, self.tensors.empty(self.y.shape)
        return [
            (Contender(LIMIT, lambda: tensors.fill(self.y, 1.0)), self._output_bytes),
            (Contender("copy", lambda: tensors.copy(spare, self.y)), 2 * self._output_bytes),
        ]

    def peers(self, name: str) -> List[Contender]:
        """The peer's ways to run the loaded layer; ImportError when it is not to be had."""
        return cuda_peers.PEERS[name](self.tensors, self.x, self.weight)

    def time(self, run, n: int) -> List[float]:
        """Seconds of each of n runs. All are queued before the first is waited for, so that the host's share of a
        launch, some microseconds in which the device would idle, stays out of everyone's time."""
        self.tensors.head_start()
        return event_seconds(self.tensors, run, n)


def event_seconds(tensors, run, n: int) -> List[float]:
    """Seconds of each of n runs, queued one behind the other, by the device's events."""
    events = [tensors.event() for _ in range(n + 1)]
    events[0].record()
    for event in events[1:]:
        run()
        event.record()
    events[-1].synchronize()
    return [tensors.milliseconds(a, b) / 1e3 for a, b in zip(events, events[1:])]
