"""ONNX Runtime on the CPU, with models that the `onnx` package's helper builds."""

import importlib
from typing import Callable, Dict, List, Sequence

import numpy as np

from ...graph.layers import Convolution, Dense, Flatten, Layer, MaxPool, Relu, Softmax, Tanh, walk
from ..timing import Contender

# These are not the newest versions, so that older releases of ONNX Runtime can read the model. Operator set 13 has the
# semantics that the layers need.
_IR_VERSION, _OPSET = 8, 13
_OPERATORS = {
    Convolution: "Conv",
    Tanh: "Tanh",
    Relu: "Relu",
    MaxPool: "MaxPool",
    Flatten: "Flatten",
    Dense: "Gemm",
    Softmax: "Softmax",
}


def convolution(x: np.ndarray, weight: np.ndarray, threads: int) -> List[Contender]:
    layers = [Convolution(len(weight), weight.shape[2])]
    return _contenders(layers, {"new0_weight": weight}, x, threads)


def network(network, x: np.ndarray, threads: int) -> List[Contender]:
    return _contenders(network.layers, network.weights, x, threads)


def _contenders(layers, weights, x, threads):
    importlib.import_module("onnxruntime")  # first, so that the error names this package if both are missing
    *_, last = walk(layers, x.shape[1:])
    y = np.empty((len(x), *last.output), np.float32)
    run = _session(model(layers, weights, x.shape), x, y, threads)
    return [Contender("onnxruntime", run, lambda y, picked: y[picked])]


def _session(model: bytes, x: np.ndarray, y: np.ndarray, threads: int) -> Callable:
    """Return a function that runs a model from x to y, both float32, and returns y."""
    ort = importlib.import_module("onnxruntime")
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for bind, name, array in ((binding.bind_input, "x", x), (binding.bind_output, "y", y)):
        bind(name, "cpu", 0, np.float32, array.shape, array.ctypes.data)

    def run():
        session.run_with_iobinding(binding)
        return y

    run.keeps = x  # type: ignore[attr-defined]  # must live as long as `run`, because the binding has only its address
    return run


def model(layers: Sequence[Layer], weights: Dict[str, np.ndarray], x_shape) -> bytes:
    """Build a chain of layers as a model; `weights` has the names of `walk`. ImportError without `onnx`."""
    onnx = importlib.import_module("onnx")
    helper, arrays = importlib.import_module("onnx.helper"), importlib.import_module("onnx.numpy_helper")
    steps = list(walk(layers, tuple(x_shape[1:])))
    names = ["x", *(f"t{number}" for number in range(len(steps) - 1)), "y"]
    nodes = [
        helper.make_node(_OPERATORS[type(step.layer)], [source, *step.parameters], [target], **_attributes(step.layer))
        for step, source, target in zip(steps, names, names[1:])
    ]
    initializers = [
        arrays.from_array(np.ascontiguousarray(weights[name], "<f4"), name)
        for step in steps
        for name in step.parameters
    ]
    ends = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, list(shape))
        for name, shape in (("x", x_shape), ("y", (x_shape[0], *steps[-1].output)))
    ]
    graph = helper.make_graph(nodes, "network", ends[:1], ends[1:], initializers)
    opsets = [helper.make_opsetid("", _OPSET)]
    return helper.make_model(graph, ir_version=_IR_VERSION, opset_imports=opsets).SerializeToString()


def _attributes(layer):
    if isinstance(layer, MaxPool):
        return {"kernel_shape": [layer.size] * 2, "strides": [layer.step] * 2, "ceil_mode": int(layer.full)}
    return {"transB": 1} if isinstance(layer, Dense) else {}  # y = x w' + b
