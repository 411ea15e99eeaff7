"""ONNX Runtime on the CPU."""

import importlib
from typing import Callable, List

import numpy as np

from ...graph.layers import Convolution, walk
from ..timing import Contender
from . import onnx_model


def convolution(x: np.ndarray, weight: np.ndarray, threads: int) -> List[Contender]:
    """Return a contender that runs one Conv, with an output allocated once."""
    layers = [Convolution(len(weight), weight.shape[2])]
    return _contenders(layers, {"new0_weight": weight}, x, threads)


def network(network, x: np.ndarray, threads: int) -> List[Contender]:
    return _contenders(network.layers, network.weights, x, threads)


def _contenders(layers, weights, x, threads):
    importlib.import_module("onnxruntime")  # first, so that the error names this package if both are missing
    *_, last = walk(layers, x.shape[1:])
    y = np.empty((len(x), *last.output), np.float32)
    run = _session(onnx_model.network(layers, weights, x.shape), x, y, threads)
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
