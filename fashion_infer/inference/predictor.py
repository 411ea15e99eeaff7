"""A network bound to a device: runs batches of images and collects the time of every layer.

In mode "operator", MXNet runs the graph node by node, and each `New` node is our operator. In mode "fused", the
library's partitioner takes every chain of nodes that it can run as fused stages; MXNet runs the rest.
"""

from typing import Callable, List, Optional, Sequence, Tuple

import numpy as np

from .._mxnet import lock as mxnet_lock
from .._mxnet.bound import BoundGraph
from ..checkpoints.checkpoint import Checkpoint
from ..errors import UsageError
from ..graph import operators, rewrite, symbol
from ..library import kernels, op_times
from ..library.op_times import OpTime
from ..request import check_batch_size, check_mode
from .layer_times import LayerResult, assemble

# Number of images per slice. With 100 images, fa2017's largest activation has 11.5 MB, which is near the size of the
# caches. Slices of 250 or 1000 images are slower and need more memory.
BATCH_SIZE = 100
# On a GPU, a slice should be large enough to use the whole device and to make the cost of launches small. With 2,500
# images, fa2017's largest activation has 288 MB on the host.
GPU_BATCH_SIZE = 2500
# The fused mode divides slices further, to fit the caches or the device. This number limits the size of MXNet's arrays:
# 8 MB of pixels for fa2017, 49 MB for fa2019.
FUSED_BATCH_SIZE = 10000


class Predictor:
    """A checkpoint's network, ready to run. Several threads may use it; their calls run one at a time."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        input_shape: Sequence[int] = (1, 28, 28),
        backend: str = "cpu",
        device: int = 0,
        context: str = "cpu",  # where MXNet runs the rest; "gpu" only if its build and the device allow that
        kernel: str = "auto",
        operator: Optional[str] = None,  # "custom" or "builtin" for all convolutions; None keeps those of the symbol
        batch_size: Optional[int] = None,  # images per slice, which limits memory
        mode: str = "operator",
        precision: str = "float32",
        watched: bool = False,  # whether `convolved` returns the tensors of our operator's nodes
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
        self._graph = graph
        self.custom_layers = symbol.convolutions(graph, symbol.CUSTOM_OPERATOR)
        self._names = {
            number: name
            for number, (name, operator) in symbol.computing(graph).items()
            if operator == symbol.CUSTOM_OPERATOR
        }
        if mode == "fused":
            graph = rewrite.with_pixel_input(graph)
        self._pixels = rewrite.takes_pixels(graph)
        fuse = {"fops_backend": backend, "fops_device": str(device), "fops_precision": precision}
        with mxnet_lock:
            self._bound = BoundGraph(
                rewrite.with_tags(graph, backend, device, kernel),
                checkpoint.weights,
                self.input_shape,
                np.uint8 if self._pixels else np.float32,
                context,
                device,
                None if mode == "operator" else fuse,
                list(self._names) if watched else (),
            )
            self.batch_size = batch_size or self._suitable_batch_size()
        # CUDA loads a kernel's code at its first launch, and that takes much longer than a convolution stage. The
        # operator mode warms up each kernel itself. The fused mode therefore runs one unmeasured slice of each size.
        self._cold = mode == "fused" and backend == "gpu"

    @property
    def classes(self) -> int:
        return self._bound.classes

    def predict(
        self, images: np.ndarray, each: Optional[Callable[[int, int], None]] = None
    ) -> Tuple[np.ndarray, List[LayerResult]]:
        """Return the scores of images (n,C,H,W) uint8, (n, classes) float32, and the layers' times in network order.

        `each` is called after each slice with the number of its first image and its length. UsageError for images of a
        shape that the network was not bound for.
        """
        if images.shape[1:] != self.input_shape or not len(images):
            raise UsageError(f"images must have shape (n, {self.input_shape}), not {images.shape}")
        watch = self._bound.stopwatch()
        scores: List[np.ndarray] = []
        records: List[OpTime] = []
        with mxnet_lock:  # for MXNet, and because the process has only one op-time log
            for start in range(0, len(images), self.batch_size):
                part = images[start : start + self.batch_size]
                if self._bound.prepare(len(part)) and self._cold:
                    self._bound.forward(part, self._bound.stopwatch())
                op_times.drain()
                scores.append(self._bound.forward(part, watch))
                records += op_times.drain()
                if each is not None:
                    each(start, len(part))
            times = assemble(self._graph, records, self._of_mxnet(), self._bound.seconds(watch))
            return np.concatenate(scores), times

    def convolved(self, images: int) -> List[Tuple[str, np.ndarray, np.ndarray, np.ndarray]]:
        """Return name, data, weights and output of each of our operator's nodes in the last slice of this size."""
        return [(self._names[number], x, k, y) for number, x, k, y in self._bound.watched(images)]

    def _of_mxnet(self) -> List[int]:
        if self.mode == "fused":
            return self._bound.unfused()
        nodes = symbol.computing(self._graph).items()
        return [number for number, (_, operator) in nodes if operator != symbol.CUSTOM_OPERATOR]

    def _suitable_batch_size(self) -> int:
        if self.mode == "fused" and self._pixels and not self._bound.unfused():
            return FUSED_BATCH_SIZE
        return GPU_BATCH_SIZE if self._backend == "gpu" else BATCH_SIZE
