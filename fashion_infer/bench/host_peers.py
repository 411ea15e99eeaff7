"""What a user could run on a CPU instead: MXNet (oneDNN), PyTorch, ONNX Runtime.

Each function takes x (B,C,H,W) and weight (M,C,K,K), float32, and the number of threads; it returns contenders and
raises ImportError or DeviceError where the library is not to be had.
"""

import importlib
from typing import List

import numpy as np

from . import onnx_model
from .rows import Contender


def mxnet(x: np.ndarray, weight: np.ndarray, threads: int) -> List[Contender]:
    """MXNet's own Convolution, which is oneDNN's."""
    from .. import _mxnet

    _mxnet.set_threads(threads)
    mx = _mxnet.load()
    data, filters = mx.nd.array(x), mx.nd.array(weight)
    data.wait_to_read()

    def run():
        y = mx.nd.Convolution(data, filters, no_bias=True, kernel=weight.shape[2:], num_filter=len(weight))
        y.wait_to_read()
        return y

    return [Contender("mxnet", run, lambda y, indices: np.stack([y[int(i)].asnumpy() for i in indices]))]


def torch(x: np.ndarray, weight: np.ndarray, threads: int) -> List[Contender]:
    """PyTorch's conv2d, in both layouts."""
    pytorch = importlib.import_module("torch")
    pytorch.set_num_threads(threads)

    def contender(layout, memory):
        data = pytorch.from_numpy(x).contiguous(memory_format=memory)
        filters = pytorch.from_numpy(weight).contiguous(memory_format=memory)

        def run():
            with pytorch.no_grad():
                return pytorch.nn.functional.conv2d(data, filters)

        return Contender("torch", run, lambda y, indices: y[indices].contiguous().numpy(), layout)

    return [contender("NCHW", pytorch.contiguous_format), contender("NHWC", pytorch.channels_last)]


def onnxruntime(x: np.ndarray, weight: np.ndarray, threads: int) -> List[Contender]:
    """ONNX Runtime's Conv, into an output made once."""
    ort = importlib.import_module("onnxruntime")
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    session = ort.InferenceSession(onnx_model.convolution(weight, x.shape), options, providers=["CPUExecutionProvider"])
    y = np.empty((len(x), len(weight), *(side - weight.shape[2] + 1 for side in x.shape[2:])), np.float32)
    binding = session.io_binding()
    for bind, name, array in ((binding.bind_input, "x", x), (binding.bind_output, "y", y)):
        bind(name, "cpu", 0, np.float32, array.shape, array.ctypes.data)

    def run():
        session.run_with_iobinding(binding)
        return y

    return [Contender("onnxruntime", run, lambda y, indices: y[indices])]


PEERS = {"mxnet": mxnet, "torch": torch, "onnxruntime": onnxruntime}
