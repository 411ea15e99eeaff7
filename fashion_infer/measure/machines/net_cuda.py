"""A CUDA device as a place to run whole networks on."""

from typing import Dict, List, Sequence, Tuple

import numpy as np

from ... import _mxnet
from ...library import operators
from ..net_rows import DEVICE, HOST, STAGE
from ..peers import cuda_networks
from ..random_network import RandomNetwork
from ..rows import Contender
from ..timing import wall_clock
from .cuda import Cuda, event_seconds
from .host import check_memory


class CudaNetworks:
    """Images and scores on the device, or images and predictions in pinned host memory.

    Raises
    ------
    DeviceError
        When there is no such device, or neither PyTorch nor CuPy can use it.
    """

    backend = "gpu"
    peer_names = tuple(cuda_networks.PEERS)
    precisions = tuple(operators.PRECISIONS)
    default_repeat = 20

    def __init__(self, device: int = 0):
        self._cuda = Cuda(device)
        self._tensors = self._cuda.tensors
        _mxnet.set_threads(operators.threads())

    def describe(self, peers: Sequence[str]) -> Tuple[Dict, Dict]:
        """What identifies this device, and versions."""
        return self._cuda.describe()

    def cases(self, batches: Sequence[int]) -> List[Tuple[str, int]]:
        """What is measured: (where, batch)."""
        return [(where, batch) for batch in batches for where in (DEVICE, HOST)] + [(STAGE, max(batches))]

    def check(self, network: RandomNetwork, batch: int, peers: Sequence[str]) -> None:
        """Refuse a batch that the host's memory does not hold: images, pinned images, and float32 ones on their way."""
        check_memory(batch * 6 * int(np.prod(network.shape)))

    def load(self, where: str, network: RandomNetwork, images: np.ndarray) -> None:
        """Take a case's network and images, (n,C,H,W) uint8."""
        self._pinned = self._pixels = None  # the last case's memory first
        self._where, self._network, self._images = where, network, images
        self._pinned = self._tensors.pinned(images) if where == HOST else None
        self._pixels = self._tensors.put(images)

    def ours(self, name: str, net) -> List[Contender]:
        """The fused network on the loaded images, uint8: widening them is a part of it."""
        outputs = len(self._images), int(np.prod(net.stages[-1].output))
        scores = self._on_device(name, net, outputs)
        return [self._slices(name, net, outputs), self._one_piece(scores)] if self._where == HOST else [scores]

    def _on_device(self, name, net, outputs):
        tensors, pixels, out = self._tensors, self._pixels, self._tensors.empty(outputs)
        tensors.fill(out, float("nan"))
        source, target = tensors.pointer(pixels), tensors.pointer(out)

        def run():
            net.launch(outputs[0], source, np.uint8, target, tensors.stream())
            return out

        run.keeps = pixels  # of which the pointer does not
        return Contender(name, run, tensors.take)

    def _slices(self, name, net, outputs):
        """Slices whose upload, work and download overlap; the host finds the largest score, 40 bytes an image."""
        pinned, out = self._pinned, self._tensors.pinned(np.full(outputs, np.nan, np.float32))

        def run():
            return net.forward(pinned, out=out).argmax(axis=1)

        return Contender(name, run, lambda y, picked: y[picked], "in slices")

    def _one_piece(self, scores):
        """Everything up, the device's pass, its largest score down: no overlap, and no work for the host."""
        tensors, pixels, pinned = self._tensors, self._pixels, self._pinned
        answer = tensors.pinned(np.full(len(pinned), -1))

        def run():
            tensors.upload(pixels, pinned)
            tensors.largest(scores.run(), answer)
            return answer

        return Contender(scores.name, run, lambda y, picked: y[picked], "in one piece")

    def peers(self, name: str) -> List[Contender]:
        """The peer's ways to run the loaded case; ImportError or DeviceError when there are none."""
        images = self._pinned if self._where == HOST else self._images
        return cuda_networks.PEERS[name](self._tensors, self._network, images, self._where == HOST)

    def clock(self, where: str):
        """What `timing.interleaved` times with."""
        return _Wall if where == HOST else _Events(self._tensors)


class _Wall:
    """From the call to its answer on the host."""

    slow = 0.5  # seconds a run
    time = staticmethod(wall_clock)


class _Events:
    """By the device's events, launches included: a small batch may wait for the host, as it would for any user."""

    slow = 0.1

    def __init__(self, tensors):
        self._tensors = tensors

    def time(self, run, n: int) -> List[float]:
        """Seconds of each of n runs."""
        return event_seconds(self._tensors, run, n)
