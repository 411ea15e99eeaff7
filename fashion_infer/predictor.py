"""A network bound to a device in one of two modes: runs batches of images and collects the time of every layer.

In mode "operator" MXNet runs the graph node by node, and each `New` node is our operator. In mode "fused" the
library's partitioner takes every chain of nodes that it can run as fused stages; what it leaves stays with MXNet.
"""

import contextlib
import ctypes
import json
import signal
import threading
import time
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

import numpy as np

from . import _mxnet
from .checkpoints.checkpoint import Checkpoint
from .errors import CheckpointError, DeviceError, UsageError
from .graph import network
from .library import operators

# Images a slice. 100 keep fa2017's largest activation at 11.5 MB, near the caches: on two Sapphire Rapids cores 10,000
# images took 0.89 s in slices of 100 (the convolution 0.11), 1.07 in slices of 250 or 1000 (0.22 and 0.29), and the
# whole process stays at 200 MB.
BATCH_SIZE = 100
# On a GPU a slice should fill the device and spread the cost of a launch; 2,500 images put 288 MB on the host.
GPU_BATCH_SIZE = 2500
# The fused mode slices by itself, to fit the caches or the device; this bounds what lies in MXNet's arrays: 8 MB of
# pixels for fa2017, 49 MB for fa2019.
FUSED_BATCH_SIZE = 10000
MODES = ("fused", "operator")
_FUSED_OPERATOR = "_fashion_infer_net"
# The op-time log is one for the process, so a forward pass and the reading of its times belong together.
_log_lock = threading.Lock()


class LayerTime(NamedTuple):
    """One layer's time, summed over the slices of one pass over all images. Times in seconds."""

    name: str  # of a fused stage: its nodes' names joined by "+"
    operator: str  # MXNet's name of it: "New", "Activation", ...; of a fused stage "New+Activation+..."
    kernel: Optional[str]  # the variant that ran, for our operator; "fused" for a stage
    seconds: float  # for ours the kernel alone; for MXNet's the whole node
    upload: float  # host to device and back, for ours on a GPU
    download: float
    log: Tuple[operators.OpTime, ...] = ()  # what the library logged of it, slice by slice

    @property
    def custom(self) -> bool:
        """Whether our operator `New` is in it."""
        return network.CUSTOM_OPERATOR in self.operator.split("+")


class Predictor:
    """A checkpoint's network, ready to run.

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
        The variant of our operator, or "auto".
    operator
        "custom" or "builtin" runs all convolution layers that way; None leaves them as the symbol has them.
    batch_size
        Images a slice; bounds memory. None for what suits the mode and the backend.
    mode
        "operator" or "fused".
    precision
        Of the fused mode on a GPU: "float32" (float32 grade), "tf32" or "fp16".

    Raises
    ------
    CheckpointError
        When the weights do not fit the network, or the network does not fit the images.
    DeviceError, UsageError
        When the operator library is missing, or has no such kernel.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        input_shape: Tuple[int, int, int] = (1, 28, 28),
        backend: str = "cpu",
        device: int = 0,
        context: str = "cpu",
        kernel: str = "auto",
        operator: Optional[str] = None,
        batch_size: Optional[int] = None,
        mode: str = "operator",
        precision: str = "float32",
    ):
        _check_mode(mode, precision, backend, kernel)
        if batch_size is not None and batch_size < 1:
            raise UsageError(f"batch size must be at least 1, not {batch_size}")
        graph = network.parse(checkpoint.symbol, "the network")
        if operator:
            graph = network.with_operator(graph, operator)
        self.layers = network.layers(graph)
        self.custom_layers = network.convolution_layers(graph, network.CUSTOM_OPERATOR)
        self.input_shape = tuple(input_shape)
        self.mode = mode
        operators.check_kernel(kernel, backend)
        operators.load_into_mxnet()
        self._mx = _mxnet.load()
        self._context = self._mx.gpu(device) if context == "gpu" else self._mx.cpu()
        if mode == "fused":
            graph = network.taking_pixels(graph)
        self._dtype = np.uint8 if _takes_pixels(graph) else np.float32
        self._symbol = self._load_symbol(_tagged(graph, backend, device, kernel))
        if mode == "fused":
            options = {"run_on": backend, "device": str(device), "precision": operators.PRECISIONS[precision]}
            self._symbol = self._symbol.optimize_for("fashion_infer", **options)
        self.batch_size = batch_size or self._suitable_batch_size(backend)
        self._arguments = self._fit(checkpoint)
        self._executors: Dict[int, Any] = {}
        # CUDA loads a kernel's code at its first launch: 11 ms on an H200, where fa2017's convolution stage takes 0.2.
        # The operator mode warms each kernel up by itself; here a slice runs once unmeasured, for each size.
        self._cold = mode == "fused" and backend == "gpu"

    def predict(self, images: np.ndarray) -> Tuple[np.ndarray, List[LayerTime]]:
        """Run the network.

        Parameters
        ----------
        images
            (n,C,H,W) uint8.

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
        watch = _Stopwatch(self._mx)
        scores, records = [], []
        for start in range(0, len(images), self.batch_size):
            part = images[start : start + self.batch_size]
            if self._cold and len(part) not in self._executors:
                self._forward(part, _Stopwatch(self._mx))
            with _log_lock:
                operators.drain_log()
                scores.append(self._forward(part, watch))
                records += operators.drain_log()
        return np.concatenate(scores), self._times(watch.seconds, records)

    def _suitable_batch_size(self, backend: str) -> int:
        if self.mode == "fused" and self._dtype == np.uint8 and not self._left_to_mxnet():
            return FUSED_BATCH_SIZE
        return GPU_BATCH_SIZE if backend == "gpu" else BATCH_SIZE

    def _left_to_mxnet(self) -> List[str]:
        """In fused mode: names of the nodes that the library did not take."""
        nodes = json.loads(self._symbol.tojson())["nodes"]
        return [node["name"] for node in nodes if node["op"] not in ("null", _FUSED_OPERATOR)]

    def _load_symbol(self, graph: Dict[str, Any]):
        try:
            return self._mx.sym.load_json(json.dumps(graph))
        except self._mx.MXNetError as error:
            raise CheckpointError(f"MXNet cannot build the network: {operators.explain(error)}") from None

    def _fit(self, checkpoint: Checkpoint) -> Dict[str, Any]:
        """The arguments other than the data, as MXNet arrays, checked against the shapes that the network infers."""
        if "data" not in self._symbol.list_arguments():
            raise CheckpointError("the network has no input called 'data'")
        arguments = {}
        for name, shape in self._infer_shapes(1).items():
            if name == "data":
                continue
            if name in checkpoint.weights:
                weight = checkpoint.weights[name]
                if weight.shape != shape:
                    raise CheckpointError(f"weight {name} has shape {weight.shape} where the network needs {shape}")
                arguments[name] = self._mx.nd.array(weight, self._context, np.float32)
            elif not name.endswith("label"):
                raise CheckpointError(f"the checkpoint lacks {name}, which the network needs with shape {shape}")
        return arguments

    def _infer_shapes(self, batch: int) -> Dict[str, Tuple[int, ...]]:
        try:
            shapes, _, auxiliary = self._symbol.infer_shape(data=(batch, *self.input_shape))
        except self._mx.MXNetError as error:
            raise CheckpointError(f"the network does not fit the images: {operators.explain(error)}") from None
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
                with _mxnet.quiet():
                    self._executors[batch] = self._symbol.bind(self._context, args=arguments, grad_req="null")
            except mx.MXNetError as error:
                raise DeviceError(f"MXNet cannot set the network up: {operators.explain(error)}") from None
        return self._executors[batch]

    def _forward(self, images: np.ndarray, watch: "_Stopwatch") -> np.ndarray:
        executor = self._executor(len(images))
        try:
            executor.arg_dict["data"][:] = images.astype(self._dtype, copy=False)
            executor.arg_dict["data"].wait_to_read()
            executor.set_monitor_callback(watch.record)
            with _interrupt_deferred():
                watch.start()
                executor.forward(is_train=False)
                watch.check()
            return executor.outputs[0].asnumpy()
        except self._mx.MXNetError as error:
            raise DeviceError(operators.explain(error)) from None

    def _times(self, seconds: Dict[str, float], records: List[operators.OpTime]) -> List[LayerTime]:
        return self._fused_times(seconds, records) if self.mode == "fused" else self._node_times(seconds, records)

    def _node_times(self, seconds: Dict[str, float], records: List[operators.OpTime]) -> List[LayerTime]:
        times = []
        for name, operator in self.layers:
            own = [r for r in records if r.layer == name[:63]]
            if operator == network.CUSTOM_OPERATOR:
                times.append(_total(name, operator, own))
            else:
                times.append(LayerTime(name, operator, None, seconds.get(name, 0.0), 0.0, 0.0))
        return times

    def _fused_times(self, seconds: Dict[str, float], records: List[operators.OpTime]) -> List[LayerTime]:
        """The stages that ran and the nodes that stayed with MXNet, in the order of the network."""
        kinds, position = dict(self.layers), {name: index for index, (name, _) in enumerate(self.layers)}
        times = []
        for stage in dict.fromkeys(record.layer for record in records):
            operator = "+".join(kinds.get(name, "") for name in stage.split("+"))
            times.append(_total(stage, operator, [r for r in records if r.layer == stage]))
        for name in self._left_to_mxnet():
            times.append(LayerTime(name, kinds.get(name, ""), None, seconds.get(name, 0.0), 0.0, 0.0))
        return sorted(times, key=lambda time: position.get(time.name.split("+")[0], len(position)))


@contextlib.contextmanager
def _interrupt_deferred() -> Iterator[None]:
    """Let Ctrl-C wait for the end of the block, a slice's milliseconds.

    Python would raise KeyboardInterrupt within the callback that MXNet makes after each node, where ctypes prints it
    and drops it.
    """
    main = threading.current_thread() is threading.main_thread()  # signals go there alone
    if not main or signal.getsignal(signal.SIGINT) in (None, signal.SIG_IGN):
        yield
        return
    caught = []
    before = signal.signal(signal.SIGINT, lambda *_: caught.append(True))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if caught:
        raise KeyboardInterrupt


class _Stopwatch:
    """Times MXNet's nodes one by one: MXNet calls `record` after it has launched a node, which then waits for it.

    Measured cost: 20 microseconds a node and slice, 2% of the smallest layer that matters.
    """

    def __init__(self, mx):
        self._mx = mx
        self._error: Optional[BaseException] = None
        self.seconds: Dict[str, float] = {}

    def start(self) -> None:
        self._error = None
        self._last = time.perf_counter()

    @property
    def record(self) -> Callable[[bytes, int], None]:
        def callback(name: bytes, handle: int) -> None:
            # An exception can't cross MXNet's C++ frames: keep it for check().
            try:
                array = self._mx.nd.NDArray(ctypes.cast(handle, self._mx.base.NDArrayHandle), writable=False)
                array.wait_to_read()
                now = time.perf_counter()
                node = name.decode().rpartition("_")[0]  # "new0_output" is the first output of new0
                self.seconds[node] = self.seconds.get(node, 0.0) + now - self._last
                self._last = now
            except BaseException as error:
                self._error = self._error or error

        return callback

    def check(self) -> None:
        """Raise what a callback caught."""
        if self._error is not None:
            raise self._error


def _check_mode(mode: str, precision: str, backend: str, kernel: str) -> None:
    if mode not in MODES:
        raise UsageError(f"unknown mode '{mode}'; known: {', '.join(MODES)}")
    operators.check_precision(precision)
    if precision != "float32" and (mode != "fused" or backend != "gpu"):
        raise UsageError(f"precision {precision} is there in the fused mode on a GPU only")
    if kernel != "auto" and mode == "fused":
        raise UsageError("the fused mode has kernels of its own: leave --kernel out, or add --mode operator")


def _total(name: str, operator: str, records: List[operators.OpTime]) -> LayerTime:
    kernel = records[0].kernel if records else None
    return LayerTime(
        name,
        operator,
        kernel,
        *(sum(getattr(r, field) for r in records) for field in ("seconds", "upload", "download")),
        tuple(records),
    )


def _tagged(graph: Dict[str, Any], backend: str, device: int, kernel: str) -> Dict[str, Any]:
    """The graph with each of our operator's nodes told how to run and what to call itself in the log."""
    for node in graph["nodes"]:
        if node["op"] == network.CUSTOM_OPERATOR:
            network.attributes(node).update(layer=node["name"], backend=backend, device=str(device), variant=kernel)
    return graph


def _takes_pixels(graph: Dict[str, Any]) -> bool:
    """Whether all that reads `data` is our operator, which takes uint8 as it is."""
    nodes = graph["nodes"]
    data = {index for index, node in enumerate(nodes) if node["op"] == "null" and node["name"] == "data"}
    readers = {node["op"] for node in nodes for entry in node["inputs"] if entry[0] in data}
    return readers == {network.CUSTOM_OPERATOR}
