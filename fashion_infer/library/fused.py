"""Runs a whole network in the operator library's fused stages, without MXNet, for tests and benchmarks.

Within MXNet, `symbol.optimize_for("fashion_infer")` runs the same code; see inference/predictor.py.
"""

from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ..errors import CheckpointError, UsageError
from ..graph import symbol as symbols
from . import bindings
from .bindings import BACKENDS, address, check, element_type, load, output_array

# Results of "float32" are as accurate as those of float32 arithmetic. The other precisions exist only on a GPU.
PRECISIONS = ("float32", "tf32", "fp16")
ACTIVATIONS = ("", "tanh", "relu")  # fops_activation


class Stage(NamedTuple):
    """Layers that run as one stage. Shapes are (C,H,W) of one item."""

    name: str  # the nodes' names joined by "+"
    kind: str  # "convolution", "dense", "map" or "softmax"
    first_node: int  # number of its first node in the graph
    last_node: int  # number of its last node in the graph
    input: Tuple[int, int, int]
    output: Tuple[int, int, int]
    kernel_size: int  # pixels per side of a convolution's kernel, else 0
    activation: str  # activation at its end: "tanh", "relu" or ""
    pool_size: int  # pixels per side of a window of the max pool at its end, or 0
    pool_stride: int  # pixels from one window of this pool to the next, or 0


class FusedNetwork:
    """A network as fused stages of items (C,H,W) or (values,), ready to run; UsageError if it cannot be fused."""

    def __init__(
        self,
        symbol: str,
        weights: Dict[str, np.ndarray],
        shape: Sequence[int] = (1, 28, 28),
        backend: str = "cpu",
        device: int = 0,
        precision: str = "float32",
    ):
        self._library = load()
        self._handle = bindings.Handle()
        nodes, self._kept = c_nodes(symbol)
        place = (BACKENDS[backend], device, precision.encode())
        check(
            self._library.fops_network_create(
                nodes, len(nodes), bindings.sizes(shape), len(shape), *place, self._handle
            )
        )
        self.shape = tuple(shape)
        self.stages = self._stages()
        self._values = int(np.prod(self.stages[-1].output))
        self._version = 0
        self.set_weights(weights)

    def __del__(self):
        if getattr(self, "_handle", None):
            self._library.fops_network_destroy(self._handle)
            self._handle = None

    def set_weights(self, weights: Dict[str, np.ndarray]) -> None:
        """Set the weights by name, as float32; CheckpointError if one is missing or has another number of values."""
        addresses: List[Optional[int]] = []
        arrays: List[np.ndarray] = []
        for name, size in self._inputs():
            if not size:
                addresses.append(None)
                continue
            if name not in weights:
                raise CheckpointError(f"the checkpoint lacks {name}, which the network needs")
            array = np.ascontiguousarray(weights[name], np.float32)
            if array.size != size:
                raise CheckpointError(f"weight {name} has shape {array.shape}, but the network needs {size} values")
            arrays.append(array)
            addresses.append(array.ctypes.data)
        self._version += 1
        check(self._library.fops_network_set_weights(self._handle, *bindings.weight_pointers(addresses, self._version)))

    def forward(self, data: np.ndarray, layer_times: bool = False, out: Optional[np.ndarray] = None) -> np.ndarray:
        """Run items (n, *shape), uint8 or float32, through all stages; return (n, values) float32, and log times."""
        data = self._contiguous(data)
        out = output_array(out, (len(data), self._values), np.float32)
        pointers = (address(data), element_type(data.dtype), address(out))
        check(self._library.fops_network_forward(self._handle, len(data), *pointers, int(layer_times)))
        return out

    def predict(self, data: np.ndarray, out: Optional[np.ndarray] = None) -> np.ndarray:
        """Return the index of each item's largest value, (n,) int32, as NumPy's argmax does; data as in `forward`."""
        data = self._contiguous(data)
        out = output_array(out, (len(data),), np.int32)
        pointers = (address(data), element_type(data.dtype), address(out))
        check(self._library.fops_network_predict(self._handle, len(data), *pointers))
        return out

    def launch(self, n: int, data: int, dtype, out: int, stream: int) -> None:
        """Queue `forward` on device pointers on a stream (0: the default one), without waiting for it."""
        check(self._library.fops_network_forward_gpu(self._handle, n, data, element_type(dtype), out, stream))

    def _contiguous(self, data: np.ndarray) -> np.ndarray:
        if data.shape[1:] != self.shape or not len(data):
            raise UsageError(f"data must have shape (n, {', '.join(map(str, self.shape))}), not {data.shape}")
        return np.ascontiguousarray(data, data.dtype if data.dtype == np.uint8 else np.float32)

    def _stages(self) -> List[Stage]:
        stages = []
        for index in range(self._library.fops_network_stage_count(self._handle)):
            info = bindings.StageInfo()
            check(self._library.fops_network_stage(self._handle, index, info))
            stages.append(
                Stage(
                    info.name.decode(),
                    info.kind.decode(),
                    info.first_node,
                    info.last_node,
                    tuple(info.input),
                    tuple(info.output),
                    info.K,
                    ACTIVATIONS[info.activation],
                    info.pool_size,
                    info.pool_stride,
                )
            )
        return stages

    def _inputs(self) -> List[Tuple[str, int]]:
        """Return each input's name, and the number of values of the weight; 0 for the data and for unused inputs."""
        data, inputs = self._library.fops_network_data(self._handle), []
        for index in range(self._library.fops_network_input_count(self._handle)):
            size = 0 if index == data else self._library.fops_network_input_size(self._handle, index)
            inputs.append((self._library.fops_network_input_name(self._handle, index).decode(), size))
        return inputs


def c_nodes(symbol: str):
    """Convert the nodes of a symbol to the library's structures (see `bindings.nodes`)."""
    graph = symbols.parse(symbol, "the network")
    return bindings.nodes(
        [
            (node["op"], node["name"], symbols.attributes(node), [entry[0] for entry in node["inputs"]])
            for node in graph["nodes"]
        ]
    )
