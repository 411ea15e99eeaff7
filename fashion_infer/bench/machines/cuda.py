"""A CUDA device as a benchmark machine. Tensors are PyTorch's; our kernels use their pointers and stream."""

from typing import Callable, ClassVar, Dict, List, Sequence, Tuple

import numpy as np

from ... import _mxnet, devices
from ...kernel_files.loading import LoadedKernel
from ...library import bindings, fused, kernels
from ...library import devices as library_devices
from .. import peers as others
from ..random_network import RandomNetwork
from ..records import COPY, DEVICE, FILL, HOST, STAGE, ConvolutionShape
from ..timing import Contender, WallClock
from ..user_kernels import LogClock
from . import tensors as frameworks
from .memory import check_memory


class Cuda:
    """One CUDA device; DeviceError if it does not exist, or PyTorch cannot use it."""

    backend = "gpu"
    precisions = fused.PRECISIONS
    convolution_peers: ClassVar[Dict[str, Callable]] = others.convolutions("gpu")
    network_peers: ClassVar[Dict[str, Callable]] = others.networks("gpu")
    convolution_defaults = 10000, 20
    network_repeat = 20

    def __init__(self, device: int = 0):
        devices.choose("gpu", device)  # raises an error if the device does not exist
        self.device = library_devices.cuda_devices()[device]
        self.tensors = frameworks.find(device)
        _mxnet.set_threads(bindings.thread_count())  # before MXNet builds the first network

    def describe(self, peers: Sequence[str]) -> Tuple[Dict, Dict]:
        device = self.device._asdict()
        del device["memory_free"]
        return device, {"numpy": np.__version__, **self.tensors.versions()}

    def check_convolution(self, shape: ConvolutionShape) -> None:
        """Refuse a batch whose images and their staging copy do not fit in host memory."""
        check_memory(8 * shape.B * shape.C * shape.H * shape.W)

    def convolution(self, x: np.ndarray, weight: np.ndarray, y_shape) -> "CudaConvolution":
        return CudaConvolution(self.tensors, x, weight, y_shape, self.device.index)

    def cases(self, batches: Sequence[int]) -> List[Tuple[str, int]]:
        return [(where, batch) for batch in batches for where in (DEVICE, HOST)] + [(STAGE, max(batches))]

    def check_network(self, network: RandomNetwork, batch: int, peers: Sequence[str]) -> None:
        """Refuse a batch whose images, pinned copy and float32 staging copy do not fit in host memory."""
        check_memory(batch * 6 * int(np.prod(network.shape)))

    def network(self, where: str, network: RandomNetwork, images: np.ndarray) -> "CudaNetwork":
        return CudaNetwork(self.tensors, where, network, images)


class CudaConvolution:
    """One convolution on the device, of NumPy arrays that are copied there."""

    def __init__(self, tensors, x, weight, y_shape, device: int = 0):
        self.tensors, self.clock = tensors, _Queued(tensors)
        self._conv = kernels.describe(x.shape, weight.shape)
        self._device, self._host = device, (x, weight)
        self.x, self.weight = tensors.put(x), tensors.put(weight)
        self.y = tensors.empty(y_shape)
        self._output_bytes = 4 * int(np.prod(y_shape))

    def kernel(self, name: str) -> Contender:
        tensors = self.tensors
        pointers = [tensors.pointer(t) for t in (self.x, self.weight, self.y)]

        def run():
            kernels.launch(name, self._conv, *pointers, tensors.stream())
            return self.y

        return Contender(name, run, tensors.take)

    def kernel_file(self, kernel: LoadedKernel) -> Contender:
        """Return a kernel file as a contender. It runs on host tensors if its format lets it copy tensors itself."""
        return self._on_host(kernel) if kernel.host_memory else self._on_device(kernel)

    def _on_device(self, kernel):
        tensors = self.tensors
        pointers = [tensors.pointer(t) for t in (self.x, self.weight, self.y)]

        def run():
            kernels.launch_timed(kernel.name, self._conv, *pointers, tensors.stream())
            return self.y

        return Contender(kernel.name, run, tensors.take, clock=LogClock(_Queued.slow))

    def _on_host(self, kernel):
        x, weight = self._host
        out = np.empty(self.y.shape, np.float32)

        def run():
            return kernels.convolve(x, weight, kernel.name, "gpu", self._device, node=0, out=out)

        return Contender(kernel.name, run, lambda y, picked: y[picked], clock=LogClock(_Queued.slow))

    def poison(self) -> None:
        self.tensors.fill(self.y, float("nan"))

    def complete(self) -> bool:
        """Wait for the device; return whether the output has no NaN."""
        return not self.tensors.has_nan(self.y)

    def limits(self) -> List[Tuple[Contender, int]]:
        """Return contenders that only move memory, with the number of bytes that each moves."""
        tensors, spare = self.tensors, self.tensors.empty(self.y.shape)
        return [
            (Contender(FILL, lambda: tensors.fill(self.y, 1.0), layout="with a value"), self._output_bytes),
            (Contender(FILL, lambda: tensors.zero(self.y), layout="with zeros"), self._output_bytes),
            (Contender(COPY, lambda: tensors.copy(spare, self.y)), 2 * self._output_bytes),
        ]

    def peers(self, peer) -> List[Contender]:
        return peer(self.tensors, self.x, self.weight)


class CudaNetwork:
    """One case of a whole network: data on the device, or images and predictions in pinned host memory."""

    def __init__(self, tensors, where: str, network: RandomNetwork, images: np.ndarray):
        self._tensors, self._network, self._images = tensors, network, images
        self._pinned = tensors.pinned(images) if where == HOST else None
        self._pixels = tensors.put(images) if where != HOST else None
        self.clock = WallClock(slow=0.5) if where == HOST else _Events(tensors)

    def ours(self, name: str, fused) -> List[Contender]:
        """Return our fused network on uint8 images as a contender. Its time includes the conversion of the pixels."""
        return [self._on_device(name, fused) if self._pinned is None else self._from_host(name, fused)]

    def _on_device(self, name, fused):
        outputs = len(self._images), int(np.prod(fused.stages[-1].output))
        tensors, pixels, out = self._tensors, self._pixels, self._tensors.empty(outputs)
        tensors.fill(out, float("nan"))
        source, target = tensors.pointer(pixels), tensors.pointer(out)

        def run():
            fused.launch(outputs[0], source, np.uint8, target, tensors.stream())
            return out

        run.keeps = pixels  # must live as long as `run`, because the pointer does not keep it alive
        return Contender(name, run, tensors.take)

    def _from_host(self, name, fused):
        pinned, answer = self._pinned, self._tensors.pinned(np.full(len(self._images), -1, np.int32))
        return Contender(name, lambda: fused.predict(pinned, out=answer), lambda y, picked: y[picked])

    def peers(self, peer) -> List[Contender]:
        to_host = self._pinned is not None
        return peer(self._tensors, self._network, self._pinned if to_host else self._images, to_host)


class _Events:
    """A clock that uses device events. It includes time in which a small batch waits for the host, as in normal use."""

    slow = 0.1  # a run that takes longer than this, in seconds, is slow

    def __init__(self, tensors):
        self._tensors = tensors

    def time(self, run, n: int) -> List[float]:
        events = [self._tensors.event() for _ in range(n + 1)]
        events[0].record()
        for event in events[1:]:
            run()
            event.record()
        events[-1].synchronize()
        return [self._tensors.milliseconds(a, b) / 1e3 for a, b in zip(events, events[1:])]


class _Queued(_Events):
    """A clock that queues all runs before the device begins, so that the device never waits for the host."""

    slow = 8e-3

    def time(self, run, n: int) -> List[float]:
        self._tensors.head_start()
        return super().time(run, n)
