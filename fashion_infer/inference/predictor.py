"""A network bound to a device in one of two modes: runs batches of images and collects the time of every layer.

In mode "operator" MXNet runs the graph node by node, and each `New` node is our operator. In mode "fused" the
library's partitioner takes every chain of nodes that it can run as fused stages; what it leaves stays with MXNet.
"""

from typing import Callable, List, Optional, Sequence, Tuple

import numpy as np

from .._mxnet import lock as mxnet_lock
from .._mxnet.bound import BoundGraph
from .._mxnet.stopwatch import Stopwatch
from ..checkpoints.checkpoint import Checkpoint
from ..errors import UsageError
from ..graph import operators, rewrite, symbol
from ..library import kernels, op_times
from ..library.op_times import OpTime
from ..request import check_batch_size, check_mode
from .layer_times import LayerTime, assemble, numbered

# Images a slice. 100 keep fa2017's largest activation at 11.5 MB, near the caches: on two Sapphire Rapids cores 10,000
# images took 0.89 s in slices of 100 (the convolution 0.11), 1.07 in slices of 250 or 1000 (0.22 and 0.29), and the
# whole process stays at 200 MB.
BATCH_SIZE = 100
# On a GPU a slice should fill the device and spread the cost of a launch; 2,500 images put 288 MB on the host.
GPU_BATCH_SIZE = 2500
# The fused mode slices by itself, to fit the caches or the device; this bounds what lies in MXNet's arrays: 8 MB of
# pixels for fa2017, 49 MB for fa2019.
FUSED_BATCH_SIZE = 10000


class Predictor:
    """A checkpoint's network, ready to run: from any number of threads, one after the other.

    Parameters
    ----------
    checkpoint
        Symbol and weights.
    input_shape
        (C,H,W) of one image.
    backend, device
        Where our operator runs: "cpu", or "gpu" and its index.
    context
        Where MXNet runs the rest: "cpu", or "gpu" where its build and the device allow that.
    kernel
        The kernel of our operator, or "auto".
    operator
        "custom" or "builtin" runs all convolution layers that way; None leaves them as the symbol has them.
    batch_size
        Images a slice; bounds memory. None for what suits the mode and the backend.
    mode
        "operator" or "fused".
    precision
        Of the fused mode on a GPU: "float32" (float32 grade), "tf32" or "fp16".
    first_node
        The number that the op-time log knows the graph's first node by; those of two networks that run at the same
        time must not meet.

    Raises
    ------
    CheckpointError
        When the network has what it may not have (see `operators`; a trusted checkpoint's may have anything), the
        weights do not fit the network, or the network does not fit the images.
    DeviceError, UsageError
        When the operator library is missing, or has no such kernel.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        input_shape: Sequence[int] = (1, 28, 28),
        backend: str = "cpu",
        device: int = 0,
        context: str = "cpu",
        kernel: str = "auto",
        operator: Optional[str] = None,
        batch_size: Optional[int] = None,
        mode: str = "operator",
        precision: str = "float32",
        first_node: int = 0,
    ):
        check_mode(mode, precision, backend, kernel)
        check_batch_size(batch_size)
        kernels.check_kernel(kernel, backend)
        graph = symbol.parse(checkpoint.symbol, "the network")
        if not checkpoint.trusted:
            operators.check(graph, "the network")
        if operator:
            graph = rewrite.with_operator(graph, operator)
        self.input_shape = tuple(input_shape)
        self.mode, self._backend = mode, backend
        self._graph, self._first_node = graph, first_node
        self.custom_layers = symbol.convolutions(graph, symbol.CUSTOM_OPERATOR)
        if mode == "fused":
            graph = rewrite.taking_pixels(graph)
        self._pixels = rewrite.takes_pixels(graph)
        with mxnet_lock:
            self._bound = BoundGraph(
                rewrite.tagged(graph, backend, device, kernel, first_node),
                checkpoint.weights,
                self.input_shape,
                np.uint8 if self._pixels else np.float32,
                context,
                device,
                None if mode == "operator" else _partitioning(backend, device, precision),
            )
            self.batch_size = batch_size or self._suitable_batch_size()
        # CUDA loads a kernel's code at its first launch: 11 ms on an H200, where fa2017's convolution stage takes 0.2.
        # The operator mode warms each kernel up by itself; here a slice runs once unmeasured, for each size.
        self._cold = mode == "fused" and backend == "gpu"

    @property
    def classes(self) -> int:
        """How many classes the network gives a score."""
        return self._bound.classes

    def predict(
        self, images: np.ndarray, each: Optional[Callable[[], None]] = None
    ) -> Tuple[np.ndarray, List[LayerTime]]:
        """Run the network.

        Parameters
        ----------
        images
            (n,C,H,W) uint8.
        each
            Called after each slice.

        Returns
        -------
        scores : numpy.ndarray
            (n, classes) float32, the network's output.
        times : list of LayerTime
            Every layer, in the order of the network.

        Raises
        ------
        UsageError
            When the images have another shape than the network was bound for.
        DeviceError
            When an operator fails or memory runs out.
        """
        if images.shape[1:] != self.input_shape or not len(images):
            raise UsageError(f"images must have shape (n, {self.input_shape}), not {images.shape}")
        watch = self.stopwatch()
        scores: List[np.ndarray] = []
        records: List[OpTime] = []
        with mxnet_lock:  # the op-time log is one for the process too
            for start in range(0, len(images), self.batch_size):
                part = images[start : start + self.batch_size]
                self.warm(part)
                op_times.drain()
                scores.append(self.forward(part, watch))
                records += op_times.drain()
                if each is not None:
                    each()
            return np.concatenate(scores), self.times(records, watch)

    def stopwatch(self) -> Stopwatch:
        """A watch over one pass, for `forward` and `times`."""
        return self._bound.stopwatch()

    def warm(self, part: np.ndarray) -> None:
        """Set up what a slice of this size needs, and run it unmeasured where the first one is slow."""
        if self._bound.seen(len(part)):
            return
        self._bound.prepare(len(part))
        if self._cold:
            self._bound.forward(part, self._bound.stopwatch())

    def forward(self, part: np.ndarray, watch: Stopwatch) -> np.ndarray:
        """The scores of one slice; its times go to the watch and into the op-time log."""
        return self._bound.forward(part, watch)

    def times(self, records: Sequence[OpTime], watch: Stopwatch) -> List[LayerTime]:
        """Every layer's time in a pass, from the watch and the log's records; other networks' are left out."""
        own = numbered(records, self._first_node, len(self._graph["nodes"]))
        return assemble(self._graph, own, self._of_mxnet(), self._bound.seconds(watch))

    def _of_mxnet(self) -> List[int]:
        """Numbers of the nodes that MXNet runs itself."""
        if self.mode == "fused":
            return self._bound.unfused()
        nodes = symbol.computing(self._graph).items()
        return [number for number, (_, operator) in nodes if operator != symbol.CUSTOM_OPERATOR]

    def _suitable_batch_size(self) -> int:
        if self.mode == "fused" and self._pixels and not self._bound.unfused():
            return FUSED_BATCH_SIZE
        return GPU_BATCH_SIZE if self._backend == "gpu" else BATCH_SIZE


def _partitioning(backend: str, device: int, precision: str):
    """The options of our partitioner."""
    return {"fops_backend": backend, "fops_device": str(device), "fops_precision": precision}
