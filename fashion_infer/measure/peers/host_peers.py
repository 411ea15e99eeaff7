"""What a user could run on a CPU instead: MXNet (oneDNN), PyTorch, ONNX Runtime.

Each function takes x (B,C,H,W) and weight (M,C,K,K), float32, and the number of threads; it returns contenders and
raises ImportError or DeviceError where the library is not to be had.
"""

import ctypes
import importlib
from typing import Callable, List, Tuple

import numpy as np

from ..rows import Contender
from . import onnx_model

_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4  # of malloc.h


def keep_freed_memory() -> None:
    """Let this process keep the memory that it frees, for what is allocated next.

    Else a peer that makes its output anew in every run pays for fresh pages, several times what the convolution costs.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # glibc's; elsewhere nothing is known to be wrong
    if mallopt:
        mallopt(_M_MMAP_MAX, 0)
        mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)


def output_shape(x: np.ndarray, weight: np.ndarray) -> Tuple[int, int, int, int]:
    """(B,M,H-K+1,W-K+1)."""
    return (len(x), len(weight), x.shape[2] - weight.shape[2] + 1, x.shape[3] - weight.shape[3] + 1)


def mxnet(x: np.ndarray, weight: np.ndarray, threads: int) -> List[Contender]:
    """MXNet's own Convolution, which is oneDNN's, into an output made once."""
    from ... import _mxnet

    _mxnet.set_threads(threads)
    mx = _mxnet.load()
    data, filters, y = mx.nd.array(x), mx.nd.array(weight), mx.nd.zeros(output_shape(x, weight))
    mx.nd.waitall()

    def run():
        mx.nd.Convolution(data, filters, no_bias=True, kernel=weight.shape[2:], num_filter=len(weight), out=y)
        y.wait_to_read()
        return y

    return [Contender("mxnet", run, lambda y, indices: np.stack([y[int(i)].asnumpy() for i in indices]))]


def torch_with(threads: int):
    """PyTorch, set to that many threads; ImportError when it is not to be had."""
    pytorch = importlib.import_module("torch")
    pytorch.set_num_threads(threads)
    return pytorch


def torch(x: np.ndarray, weight: np.ndarray, threads: int) -> List[Contender]:
    """PyTorch's conv2d, in both layouts. It makes its output anew in every run: see `keep_freed_memory`."""
    pytorch = torch_with(threads)

    def contender(layout, memory):
        data = pytorch.from_numpy(x).contiguous(memory_format=memory)
        filters = pytorch.from_numpy(weight).contiguous(memory_format=memory)

        def run():
            with pytorch.no_grad():
                return pytorch.nn.functional.conv2d(data, filters)

        return Contender("torch", run, lambda y, indices: y[indices].contiguous().numpy(), layout)

    return [contender("NCHW", pytorch.contiguous_format), contender("NHWC", pytorch.channels_last)]


def inference_session(model: bytes, x: np.ndarray, y: np.ndarray, threads: int) -> Callable[[], np.ndarray]:
    """ONNX Runtime's run of a model from x into y, both float32; it returns y."""
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

    run.keeps = x  # of which the binding knows the address alone
    return run


def onnxruntime(x: np.ndarray, weight: np.ndarray, threads: int) -> List[Contender]:
    """ONNX Runtime's Conv, into an output made once."""
    y = np.empty(output_shape(x, weight), np.float32)
    run = inference_session(onnx_model.convolution(weight, x.shape), x, y, threads)
    return [Contender("onnxruntime", run, lambda y, indices: y[indices])]


PEERS = {"mxnet": mxnet, "torch": torch, "onnxruntime": onnxruntime}
