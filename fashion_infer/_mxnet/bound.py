"""A graph bound to a device by MXNet: the shapes that it infers, its executors, and one forward pass."""

import json
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from ..errors import CheckpointError, DeviceError
from ..graph.symbol import Graph
from ..interrupts import interrupt_deferred
from .loading import load
from .logs import quiet
from .plugin import BACKEND, FUSED_OPERATOR, explain, load_operators
from .stopwatch import Stopwatch


class BoundGraph:
    """A graph with its weights on a device; its input is called `data`.

    Parameters
    ----------
    graph
        The network, from `symbol.parse`.
    weights
        Arrays by name.
    input_shape
        (C,H,W) of one image.
    dtype
        Of `data`: numpy.uint8 or numpy.float32.
    context, device
        Where MXNet keeps its tensors: "cpu", or "gpu" and its index.
    fuse
        The options of our partitioner, which then takes every chain of nodes that it can run as fused stages; None to
        leave the graph to MXNet's executor.

    Raises
    ------
    CheckpointError
        When the weights do not fit the network, or the network does not fit the images.
    DeviceError
        When MXNet or the operator library cannot be loaded.
    """

    def __init__(
        self,
        graph: Graph,
        weights: Mapping[str, np.ndarray],
        input_shape: Sequence[int],
        dtype: type,
        context: str = "cpu",
        device: int = 0,
        fuse: Optional[Mapping[str, str]] = None,
    ):
        load_operators()
        self._mx = load()
        self._context = self._mx.gpu(device) if context == "gpu" else self._mx.cpu()
        self._input_shape, self._dtype = tuple(input_shape), dtype
        self._symbol = self._load_symbol(graph)
        if fuse is not None:
            self._symbol = self._symbol.optimize_for(BACKEND, **fuse)
        self._arguments = self._fit(weights)
        self._executors: Dict[int, Any] = {}

    def stopwatch(self) -> Stopwatch:
        """A watch that `forward` takes."""
        return Stopwatch(self._mx)

    def unfused(self) -> List[str]:
        """Names of the nodes that our partitioner did not take."""
        nodes = json.loads(self._symbol.tojson())["nodes"]
        return [node["name"] for node in nodes if node["op"] not in ("null", FUSED_OPERATOR)]

    def seen(self, batch: int) -> bool:
        """Whether a slice of this size has been run before."""
        return batch in self._executors

    def forward(self, images: np.ndarray, watch: Stopwatch) -> np.ndarray:
        """Run one slice.

        Parameters
        ----------
        images
            (n,C,H,W), uint8 or float32.
        watch
            Takes the time of every node of MXNet's graph.

        Returns
        -------
        numpy.ndarray
            The network's output, (n, ...) float32.

        Raises
        ------
        DeviceError
            When an operator fails or memory runs out.
        """
        executor = self._executor(len(images))
        try:
            executor.arg_dict["data"][:] = images.astype(self._dtype, copy=False)
            executor.arg_dict["data"].wait_to_read()
            executor.set_monitor_callback(watch.record)
            with interrupt_deferred():
                watch.start()
                executor.forward(is_train=False)
                watch.check()
            return executor.outputs[0].asnumpy()
        except self._mx.MXNetError as error:
            raise DeviceError(explain(error)) from None

    def _load_symbol(self, graph: Graph):
        try:
            return self._mx.sym.load_json(json.dumps(graph))
        except self._mx.MXNetError as error:
            raise CheckpointError(f"MXNet cannot build the network: {explain(error)}") from None

    def _fit(self, weights: Mapping[str, np.ndarray]) -> Dict[str, Any]:
        """The arguments other than the data, as MXNet arrays, checked against the shapes that the network infers."""
        if "data" not in self._symbol.list_arguments():
            raise CheckpointError("the network has no input called 'data'")
        arguments = {}
        for name, shape in self._infer_shapes(1).items():
            if name == "data":
                continue
            if name in weights:
                weight = weights[name]
                if weight.shape != shape:
                    raise CheckpointError(f"weight {name} has shape {weight.shape} where the network needs {shape}")
                arguments[name] = self._mx.nd.array(weight, self._context, np.float32)
            elif not name.endswith("label"):
                raise CheckpointError(f"the checkpoint lacks {name}, which the network needs with shape {shape}")
        return arguments

    def _infer_shapes(self, batch: int) -> Dict[str, Tuple[int, ...]]:
        try:
            shapes, _, auxiliary = self._symbol.infer_shape(data=(batch, *self._input_shape))
        except self._mx.MXNetError as error:
            raise CheckpointError(f"the network does not fit the images: {explain(error)}") from None
        if shapes is None:
            raise CheckpointError("the network does not fit the images: MXNet cannot infer its shapes")
        if auxiliary:
            raise CheckpointError("the network has auxiliary states (batch normalisation), which are not supported")
        return dict(zip(self._symbol.list_arguments(), shapes))

    def _executor(self, batch: int):
        """An executor for slices of this size; all of them share the weights."""
        if batch not in self._executors:
            mx, arguments = self._mx, dict(self._arguments)
            try:
                for name, shape in self._infer_shapes(batch).items():
                    if name not in arguments:
                        dtype = self._dtype if name == "data" else np.float32
                        arguments[name] = mx.nd.zeros(shape, self._context, dtype)
                with quiet():
                    self._executors[batch] = self._symbol.bind(self._context, args=arguments, grad_req="null")
            except mx.MXNetError as error:
                raise DeviceError(f"MXNet cannot set the network up: {explain(error)}") from None
        return self._executors[batch]
