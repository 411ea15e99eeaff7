"""A graph bound to a device by MXNet: inferred shapes, executors, and one forward pass.

MXNet gets numbers in place of the nodes' names (see `rewrite.with_numbered_names`). This module maps them back.
"""

import json
import math
import time
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from ..errors import CheckpointError, DeviceError
from ..graph import rewrite
from ..graph.symbol import Graph, slopes
from ..system.interrupts import interrupt_deferred
from ..system.text import excerpt
from .loading import load, quiet
from .plugin import BACKEND, FUSED_OPERATOR, explain, load_operators

# Size limit of a layer's output for one image. The largest such output of fa2017 has 115 kB.
_LARGEST_OUTPUT = 256 << 20  # bytes


class Stopwatch:
    """Times MXNet's nodes one by one: `record` waits for each node, which costs some 20 microseconds per slice."""

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
            # An exception cannot pass through MXNet's C++ code. Keep it for check().
            try:
                array = self._mx.nd.NDArray(self._mx.base.NDArrayHandle(handle), writable=False)
                array.wait_to_read()
                now = time.perf_counter()
                node = name.decode().rpartition("_")[0]  # "new0_output" is the first output of new0
                self.seconds[node] = self.seconds.get(node, 0.0) + now - self._last
                self._last = now
            except BaseException as error:
                self._error = self._error or error

        return callback

    def check(self) -> None:
        if self._error is not None:
            raise self._error


class BoundGraph:
    """A graph with its weights on a device; CheckpointError if it does not fit its weights or the images (C,H,W)."""

    def __init__(
        self,
        graph: Graph,
        weights: Mapping[str, np.ndarray],
        input_shape: Sequence[int],
        dtype: type,
        context: str = "cpu",
        device: int = 0,
        fuse: Optional[Mapping[str, str]] = None,
        watched: Sequence[int] = (),  # numbers of nodes whose data, weights and output `watched` returns
    ):
        load_operators()
        self._mx = load()
        self._context = self._mx.gpu(device) if context == "gpu" else self._mx.cpu()
        self._input_shape, self._dtype = tuple(input_shape), dtype
        self._graph = graph
        self._data = self._find_data()
        self._given = self._shapes_of_slopes(weights)
        with quiet():
            self._symbol = self._load_symbol()
            self._check_output_sizes()
            if fuse is not None:
                self._symbol = self._symbol.optimize_for(BACKEND, **fuse)
            self._arguments = self._fit(weights)
            self._watched = [(number, self._names_of_tensors(number)) for number in watched]
            outputs = [name for _, names in self._watched for name in names if name not in self._arguments]
            outputs = [name for name in dict.fromkeys(outputs) if name != self._data]
            if outputs:
                internals = self._symbol.get_internals()
                self._symbol = self._mx.sym.Group([self._symbol, *(internals[name] for name in outputs)])
        self._executors: Dict[int, Any] = {}

    def stopwatch(self) -> Stopwatch:
        return Stopwatch(self._mx)

    def seconds(self, watch: Stopwatch) -> Dict[int, float]:
        numbers = ((rewrite.number_of(name), seconds) for name, seconds in watch.seconds.items())
        return {number: seconds for number, seconds in numbers if number is not None}

    def unfused(self) -> List[int]:
        nodes = json.loads(self._symbol.tojson())["nodes"]
        numbers = [rewrite.number_of(node["name"]) for node in nodes if node["op"] not in ("null", FUSED_OPERATOR)]
        return [number for number in numbers if number is not None]

    def prepare(self, batch: int) -> bool:
        """Make the executor for slices of this size; return whether it is new. One thread at a time may call this."""
        new = batch not in self._executors
        self._executor(batch)
        return new

    def forward(self, images: np.ndarray, watch: Stopwatch) -> np.ndarray:
        """Run one slice (n,C,H,W), uint8 or float32; return the output, (n, ...) float32. DeviceError if that fails."""
        executor = self._executor(len(images))
        try:
            executor.arg_dict[self._data][:] = images.astype(self._dtype, copy=False)
            executor.arg_dict[self._data].wait_to_read()
            executor.set_monitor_callback(watch.record)
            with interrupt_deferred():
                watch.start()
                executor.forward(is_train=False)
                watch.check()
            return executor.outputs[0].asnumpy()
        except self._mx.MXNetError as error:
            raise DeviceError(self._explain(error)) from None

    def watched(self, images: int) -> List[Tuple[int, np.ndarray, np.ndarray, np.ndarray]]:
        executor = self._executor(images)
        found = {**executor.arg_dict, **dict(zip(self._symbol.list_outputs(), executor.outputs))}
        of = ((number, *(found[name].asnumpy() for name in names)) for number, names in self._watched)
        return [(number, data.astype(np.float32, copy=False), weights, y) for number, data, weights, y in of]

    def _names_of_tensors(self, number: int) -> List[str]:
        known = self._symbol.get_internals().list_outputs()
        inputs = [entry[0] for entry in self._graph["nodes"][number]["inputs"][:2]]
        wanted = [rewrite.name_of(each) for each in (*inputs, number)]
        return [next(each for each in known if name in (each, each.rpartition("_")[0])) for name in wanted]

    def _explain(self, error: Exception) -> str:
        return rewrite.with_names(explain(error), self._graph)

    def _find_data(self) -> str:
        for number, node in enumerate(self._graph["nodes"]):
            if node["op"] == "null" and node["name"] == "data":
                return rewrite.name_of(number)
        raise CheckpointError("the network has no input called 'data'")

    def _shapes_of_slopes(self, weights: Mapping[str, np.ndarray]) -> Dict[str, Tuple[int, ...]]:
        """Return the shapes of PReLUs' slopes with one value for all channels; MXNet would infer one per channel."""
        names = {number: self._graph["nodes"][number]["name"] for number in slopes(self._graph)}
        single = [i for i, name in names.items() if name in weights and weights[name].shape == (1,)]
        return {rewrite.name_of(i): (1,) for i in single}

    def _load_symbol(self):
        try:
            loaded = self._mx.sym.load_json(json.dumps(rewrite.with_numbered_names(self._graph)))
        except self._mx.MXNetError as error:
            raise CheckpointError(f"MXNet cannot build the network: {self._explain(error)}") from None
        if self._data not in loaded.list_arguments():
            raise CheckpointError("the network has no input called 'data' that its output depends on")
        return loaded

    def _check_output_sizes(self) -> None:
        internals = self._symbol.get_internals()
        _, outputs, _ = self._inferred(internals, 1)
        for name, shape in zip(internals.list_outputs(), outputs):
            size = 4 * math.prod(map(int, shape))
            number = rewrite.number_of(name.rpartition("_")[0])
            if size > _LARGEST_OUTPUT and number is not None:
                node = excerpt(self._graph["nodes"][number]["name"])
                raise CheckpointError(
                    f"layer '{node}' makes {size >> 20} MiB from one image of {self._input_shape[-1]} pixels per side; "
                    f"the limit is {_LARGEST_OUTPUT >> 20} MiB"
                )

    def _fit(self, weights: Mapping[str, np.ndarray]) -> Dict[str, Any]:
        arguments = {}
        for key, shape in self._infer_shapes(1).items():
            if key == self._data:
                continue
            name = self._graph["nodes"][rewrite.number_of(key)]["name"]
            if name in weights:
                weight = weights[name]
                if weight.shape != shape:
                    raise CheckpointError(f"weight {excerpt(name)} has shape {weight.shape} instead of {shape}")
                arguments[key] = self._mx.nd.array(weight, self._context, np.float32)
            elif not name.endswith("label"):
                raise CheckpointError(f"the checkpoint lacks {excerpt(name)} with shape {shape}")
        return arguments

    def _infer_shapes(self, batch: int) -> Dict[str, Tuple[int, ...]]:
        """Return the inferred shapes of arguments and auxiliary states by MXNet's names. Check the output's shape."""
        shapes, outputs, auxiliary = self._inferred(self._symbol, batch)
        if not all(shape and 0 not in shape for shape in [*shapes, *outputs, *auxiliary]):
            raise CheckpointError("the network does not fit the images: MXNet cannot infer its shapes")
        if len(outputs[0]) != 2 or outputs[0][0] != batch:
            raise CheckpointError(f"the network's output has shape {tuple(outputs[0])} instead of ({batch}, classes)")
        self.classes = outputs[0][1]
        names = [*self._symbol.list_arguments(), *self._symbol.list_auxiliary_states()]
        return dict(zip(names, [*shapes, *auxiliary]))

    def _inferred(self, of: Any, batch: int) -> Tuple[List[Tuple[int, ...]], ...]:
        """Return the inferred shapes of arguments, outputs and auxiliary states; () or a 0 in a shape means unknown."""
        try:
            return of.infer_shape_partial(**{**self._given, self._data: (batch, *self._input_shape)})
        except self._mx.MXNetError as error:
            raise CheckpointError(f"the network does not fit the images: {self._explain(error)}") from None

    def _executor(self, batch: int):
        """Return the executor for slices of this size; create it at the first call. All executors share the weights."""
        if batch not in self._executors:
            mx, arguments = self._mx, dict(self._arguments)
            try:
                for name, shape in self._infer_shapes(batch).items():
                    if name not in arguments:
                        dtype = self._dtype if name == self._data else np.float32
                        arguments[name] = mx.nd.zeros(shape, self._context, dtype)
                states = {name: arguments.pop(name) for name in self._symbol.list_auxiliary_states()}
                with quiet():
                    given = {"args": arguments, "aux_states": states}
                    self._executors[batch] = self._symbol.bind(self._context, grad_req="null", **given)
            except mx.MXNetError as error:
                kind = CheckpointError if "Error in operator" in str(error) else DeviceError
                raise kind(f"MXNet cannot set the network up: {self._explain(error)}") from None
        return self._executors[batch]
