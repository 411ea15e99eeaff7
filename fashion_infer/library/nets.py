"""A whole network run by the operator library's fused stages, outside MXNet: for tests and benchmarks.

Within MXNet the same code runs behind `symbol.optimize_for("fashion_infer")`; see predictor.py.
"""

import ctypes
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ..errors import CheckpointError, UsageError
from ..graph import network
from . import operators

BACKENDS = operators.BACKENDS


class _Node(ctypes.Structure):
    _fields_ = [
        ("op", ctypes.c_char_p),
        ("name", ctypes.c_char_p),
        ("keys", ctypes.POINTER(ctypes.c_char_p)),
        ("values", ctypes.POINTER(ctypes.c_char_p)),
        ("attribute_count", ctypes.c_int),
        ("inputs", ctypes.POINTER(ctypes.c_int)),
        ("input_count", ctypes.c_int),
    ]


class _StageInfo(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("kind", ctypes.c_char_p),
        ("input", ctypes.c_int64 * 3),
        ("output", ctypes.c_int64 * 3),
        ("K", ctypes.c_int64),
        ("tanh", ctypes.c_int),
        ("pool", ctypes.c_int),
    ]


class Stage(NamedTuple):
    """A fused stage. Shapes are (C,H,W) of one item."""

    name: str  # the nodes' names joined by "+"
    kind: str  # "convolution", "dense", "map" or "softmax"
    input: Tuple[int, int, int]
    output: Tuple[int, int, int]
    kernel: int  # side of a convolution's kernel, else 0
    tanh: bool
    pool: bool

    @property
    def operations(self) -> int:
        """Floating-point operations an item: two for each multiply-add of a convolution or matrix product."""
        channels, height, width = self.input
        if self.kind == "convolution":
            positions = (height - self.kernel + 1) * (width - self.kernel + 1)
            return 2 * self.output[0] * positions * channels * self.kernel**2
        return 2 * channels * height * width * self.output[0] if self.kind == "dense" else 0


class Net:
    """A network as fused stages, set up to run.

    Parameters
    ----------
    symbol
        The network as JSON; a chain of nodes that the library can fuse.
    weights
        Arrays by name.
    shape
        Of one item: (C,H,W), or (values,).
    backend, device
        "cpu", or "gpu" and its index.
    precision
        "float32" (float32 grade), or on the GPU "tf32" or "fp16".

    Raises
    ------
    UsageError
        When a node cannot be fused.
    CheckpointError
        When a weight is missing or has another shape than the network needs.
    DeviceError
        When the device fails or memory runs out.
    """

    def __init__(
        self,
        symbol: str,
        weights: Dict[str, np.ndarray],
        shape: Sequence[int] = (1, 28, 28),
        backend: str = "cpu",
        device: int = 0,
        precision: str = "float32",
    ):
        self._library = operators.library()
        self._handle = ctypes.c_void_p()
        operators.check_precision(precision)
        nodes = network.parse(symbol, "the network")["nodes"]
        array, self._kept = _c_nodes(nodes)
        sizes = (ctypes.c_int64 * len(shape))(*shape)
        name = operators.PRECISIONS[precision]
        operators.check(
            self._library.fops_net_create(
                array,
                len(array),
                sizes,
                len(shape),
                BACKENDS[backend],
                device,
                name.encode(),
                ctypes.byref(self._handle),
            )
        )
        self.shape = tuple(shape)
        self.stages = self._stages()
        self._version = 0
        self.set_weights(weights)

    def __del__(self):
        if getattr(self, "_handle", None):
            self._library.fops_net_destroy(self._handle)
            self._handle = None

    def set_weights(self, weights: Dict[str, np.ndarray]) -> None:
        """Take the network's weights from arrays by name, converted to float32."""
        library, needed = self._library, self._shapes()
        count = library.fops_net_input_count(self._handle)
        pointers, arrays = (ctypes.c_void_p * count)(), []
        for index in range(count):
            name = library.fops_net_input_name(self._handle, index).decode()
            if name not in needed:
                continue
            if name not in weights:
                raise CheckpointError(f"the checkpoint lacks {name}, which the network needs")
            array = np.ascontiguousarray(weights[name], np.float32)
            if array.size != needed[name]:
                raise CheckpointError(f"weight {name} has shape {array.shape}, {needed[name]} values are needed")
            arrays.append(array)
            pointers[index] = array.ctypes.data
        self._version += 1
        versions = (ctypes.c_uint64 * count)(*[self._version] * count)
        operators.check(library.fops_net_set_weights(self._handle, pointers, versions))

    def forward(self, data: np.ndarray, layer_times: bool = False, out: Optional[np.ndarray] = None) -> np.ndarray:
        """Run items through all stages.

        Parameters
        ----------
        data
            (n, *shape), uint8 or float32.
        layer_times
            Whether each stage's time goes into the op-time log (`operators.drain_log`).
        out
            (n, values of the last stage) float32 to write into; made when None.
        """
        if data.shape[1:] != self.shape or not len(data):
            raise UsageError(f"data must have shape (n, {', '.join(map(str, self.shape))}), not {data.shape}")
        data = np.ascontiguousarray(data, data.dtype if data.dtype == np.uint8 else np.float32)
        shape = (len(data), int(np.prod(self.stages[-1].output)))
        if out is None:
            out = np.empty(shape, np.float32)
        elif out.shape != shape or out.dtype != np.float32 or not out.flags.c_contiguous:
            raise UsageError(f"out must be a C-contiguous float32 array of shape {shape}")
        operators.check(
            self._library.fops_net_forward(
                self._handle,
                len(data),
                data.ctypes.data,
                operators.element_type(data.dtype),
                out.ctypes.data,
                int(layer_times),
            )
        )
        return out

    def launch(self, n: int, data: int, dtype, out: int, stream: int) -> None:
        """The same on device pointers, queued on a stream (0: the default one) and not waited for."""
        operators.check(
            self._library.fops_net_forward_cuda(self._handle, n, data, operators.element_type(dtype), out, stream)
        )

    def _stages(self) -> List[Stage]:
        found = []
        for index in range(self._library.fops_net_stage_count(self._handle)):
            info = _StageInfo()
            operators.check(self._library.fops_net_stage(self._handle, index, ctypes.byref(info)))
            found.append(
                Stage(
                    info.name.decode(),
                    info.kind.decode(),
                    tuple(info.input),
                    tuple(info.output),
                    info.K,
                    bool(info.tanh),
                    bool(info.pool),
                )
            )
        return found

    def _shapes(self) -> Dict[str, int]:
        """How many values each weight must have."""
        sizes = {}
        for index in range(self._library.fops_net_input_count(self._handle)):
            size = self._library.fops_net_input_size(self._handle, index)
            if size and index != self._library.fops_net_data(self._handle):
                sizes[self._library.fops_net_input_name(self._handle, index).decode()] = size
        return sizes


def _c_nodes(nodes) -> Tuple[ctypes.Array, List]:
    """The nodes of a symbol as the C API takes them, and what must live as long."""
    array, kept = (_Node * len(nodes))(), []
    for target, node in zip(array, nodes):
        attributes = network.attributes(node)
        keys = (ctypes.c_char_p * len(attributes))(*[key.encode() for key in attributes])
        values = (ctypes.c_char_p * len(attributes))(*[value.encode() for value in attributes.values()])
        inputs = (ctypes.c_int * len(node["inputs"]))(*[entry[0] for entry in node["inputs"]])
        kept += [keys, values, inputs]
        target.op, target.name = node["op"].encode(), node["name"].encode()
        target.keys, target.values, target.attribute_count = keys, values, len(attributes)
        target.inputs, target.input_count = inputs, len(inputs)
    return array, kept
