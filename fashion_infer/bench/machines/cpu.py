"""The CPU as a benchmark machine: tensors in host memory."""

import ctypes
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from typing import Callable, ClassVar, Dict, List, Optional, Sequence, Tuple

import numpy as np

from ... import _mxnet
from ...graph.layers import walk
from ...kernel_files.loading import LoadedKernel
from ...library import bindings, kernels
from .. import peers as others
from ..random_network import RandomNetwork
from ..records import COPY, FILL, MEMORY, ConvolutionShape
from ..timing import Contender, WallClock
from ..user_kernels import LogClock
from .memory import check_memory, proc

_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4  # parameter numbers from malloc.h
_CLOCK = WallClock(slow=2.0)
_ONE, _ALL = "by one thread", "by all threads"


class Cpu:
    """This machine's CPU. Every contender uses as many threads as the library does (`bindings.thread_count()`)."""

    backend = "cpu"
    precisions = ("float32",)
    convolution_peers: ClassVar[Dict[str, Callable]] = others.convolutions("cpu")
    network_peers: ClassVar[Dict[str, Callable]] = others.networks("cpu")
    convolution_defaults = 1000, 12
    network_repeat = 12

    def __init__(self):
        self.threads = bindings.thread_count()
        self._pool = ThreadPoolExecutor(self.threads)
        _mxnet.set_threads(self.threads)  # has an effect only before MXNet is loaded
        _keep_freed_memory()

    def describe(self, peers: Sequence[str]) -> Tuple[Dict, Dict]:
        name = proc("cpuinfo", "model name") or "CPU"
        device = {"name": name, "instructions": bindings.cpu_isa(), "threads": self.threads}
        packages = dict.fromkeys(others.find(peer).package for peer in peers)
        return device, {"numpy": np.__version__, **{package: _version(package) for package in packages}}

    def check_convolution(self, shape: ConvolutionShape) -> None:
        """Refuse a batch if our tensors and those of one peer together do not fit in memory."""
        check_memory(8 * shape.B * shape.C * shape.H * shape.W + 12 * shape.outputs)

    def convolution(self, x: np.ndarray, weight: np.ndarray, y_shape) -> "CpuConvolution":
        return CpuConvolution(x, weight, y_shape, self.threads, self._pool)

    def cases(self, batches: Sequence[int]) -> List[Tuple[str, int]]:
        return [(MEMORY, batch) for batch in batches]

    def check_network(self, network: RandomNetwork, batch: int, peers: Sequence[str]) -> None:
        """Refuse a batch that does not fit: a peer's heap holds 1.5 times its two largest activations."""
        largest = max(int(np.prod(step.output)) for step in walk(network.layers, network.shape))
        packages = {others.find(peer).package for peer in peers}
        check_memory(batch * (12 * largest * len(packages) + 9 * int(np.prod(network.shape))))

    def network(self, where: str, network: RandomNetwork, images: np.ndarray) -> "CpuNetwork":
        return CpuNetwork(network, images, self.threads)


class CpuConvolution:
    clock = _CLOCK

    def __init__(self, x: np.ndarray, weight: np.ndarray, y_shape, threads: int, pool: ThreadPoolExecutor):
        self.x, self.weight, self.y = x, weight, np.empty(y_shape, np.float32)
        self._threads, self._pool = threads, pool

    def kernel(self, name: str) -> Contender:
        return Contender(name, kernels.prepare(self.x, self.weight, name, out=self.y), _items)

    def kernel_file(self, kernel: LoadedKernel) -> Contender:
        """Return a kernel file as a contender; the library fills its output with NaN outside of the logged time."""

        def run():
            return kernels.convolve(self.x, self.weight, kernel.name, node=0, out=self.y)

        return Contender(kernel.name, run, _items, clock=LogClock(_CLOCK.slow))

    def poison(self) -> None:
        self.y.fill(np.nan)

    def complete(self) -> bool:
        return not np.isnan(self.y.max())

    def limits(self) -> List[Tuple[Contender, int]]:
        """Return contenders that only move memory, with the number of bytes that each moves.

        The write floor is the faster of two ways to fill the output. One thread is faster for outputs that fit in the
        caches, but does not saturate the memory bus.
        """
        spare = np.empty_like(self.y)
        y, to, size = self.y.ctypes.data, spare.ctypes.data, self.y.nbytes

        def fill():
            ctypes.memset(y, 0, size)

        def fill_in_parts():
            self._in_parts(lambda start, size: ctypes.memset(y + start, 0, size))

        def copy():
            ctypes.memmove(to, y, size)
            return spare  # this reference keeps `spare` alive as long as the function

        def copy_in_parts():
            self._in_parts(lambda start, size: ctypes.memmove(to + start, y + start, size))
            return spare

        return [
            (Contender(FILL, fill, layout=_ONE), size),
            (Contender(FILL, fill_in_parts, layout=_ALL), size),
            (Contender(COPY, copy, layout=_ONE), 2 * size),
            (Contender(COPY, copy_in_parts, layout=_ALL), 2 * size),
        ]

    def peers(self, peer) -> List[Contender]:
        return peer(self.x, self.weight, self._threads)

    def _in_parts(self, call):
        """Apply `call` to parts of the tensors, in as many threads as the kernels use; ctypes releases the GIL."""
        ends = np.linspace(0, self.y.nbytes, self._threads + 1).astype(int).tolist()
        list(self._pool.map(lambda a, b: call(a, b - a), ends[:-1], ends[1:]))


class CpuNetwork:
    clock = _CLOCK

    def __init__(self, network: RandomNetwork, images: np.ndarray, threads: int):
        self._network, self._images, self._threads = network, images, threads
        self._floats: Optional[np.ndarray] = None

    def ours(self, name: str, fused) -> List[Contender]:
        """Return our fused network on uint8 images as a contender. Its time includes the conversion of the pixels."""
        images = self._images
        out = np.full((len(images), int(np.prod(fused.stages[-1].output))), np.nan, np.float32)
        return [Contender(name, lambda: fused.forward(images, out=out), _items)]

    def peers(self, peer) -> List[Contender]:
        if self._floats is None:
            self._floats = self._images.astype(np.float32)
        return peer(self._network, self._floats, self._threads)


def _items(y, indices):
    return y[indices]


def _keep_freed_memory() -> None:
    """Let this process keep freed memory, so that peers that allocate their output do not wait for fresh pages."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # some C libraries have no mallopt
    if mallopt:
        mallopt(_M_MMAP_MAX, 0)
        mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)


def _version(package):
    # The packages mxnet-cu112 and onnxruntime-gpu are imported as mxnet and onnxruntime, names without metadata.
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "unknown"
