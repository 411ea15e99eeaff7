"""What a user could run a whole network with on a CPU instead: PyTorch, ONNX Runtime, MXNet.

Each function takes a RandomNetwork, images x (n,C,H,W) float32 and the number of threads; it returns contenders, whose
samples are scores, and raises ImportError or DeviceError where the library is not to be had.
"""

import json
from typing import List

import numpy as np

from ...graph import network as symbols
from .. import random_network
from ..rows import Contender
from . import onnx_model, torch_network
from .host_peers import inference_session, torch_with


def torch(network, x: np.ndarray, threads: int) -> List[Contender]:
    """PyTorch, eager, in both layouts."""
    pytorch = torch_with(threads)
    formats = (("NCHW", pytorch.contiguous_format), ("NHWC", pytorch.channels_last))
    return [_torch(pytorch, network, x, layout, memory) for layout, memory in formats]


def _torch(pytorch, network, x, layout, memory):
    function = torch_network.function(pytorch, network.steps, memory_format=memory)
    data = pytorch.from_numpy(x).contiguous(memory_format=memory)

    def run():
        with pytorch.inference_mode():
            return function(data)

    return Contender("torch", run, lambda y, picked: y[picked].numpy(), layout)


def torch_compile(network, x: np.ndarray, threads: int) -> List[Contender]:
    """PyTorch's compiler, mode max-autotune; compiled before it returns."""
    pytorch = torch_with(threads)
    pytorch._dynamo.reset()  # else a second batch size is compiled for any size
    data = pytorch.from_numpy(x)
    function = torch_network.compiled(pytorch, torch_network.function(pytorch, network.steps), data)

    def run():
        with pytorch.no_grad():
            return function(data)

    return [Contender("torch-compile", run, lambda y, picked: y[picked].numpy())]


def onnxruntime(network, x: np.ndarray, threads: int) -> List[Contender]:
    """ONNX Runtime on the same network, into an output made once."""
    shape = (len(x), *random_network.shapes(network.steps, network.shape)[-1])
    run = inference_session(onnx_model.network(network.steps, x.shape), x, np.empty(shape, np.float32), threads)
    return [Contender("onnxruntime", run, lambda y, picked: y[picked])]


def mxnet(network, x: np.ndarray, threads: int) -> List[Contender]:
    """MXNet's graph with its own Convolution, node by node, as the baseline programs ran it."""
    from ... import _mxnet

    mx = _mxnet.load()  # its threads were set as it was first loaded
    graph = symbols.with_operator(json.loads(network.symbol), "builtin")
    symbol = mx.sym.load_json(json.dumps(graph))
    arguments = {name: mx.nd.array(weight) for name, weight in network.weights.items()}
    arguments["data"] = mx.nd.array(x)
    arguments["softmax_label"] = mx.nd.zeros(len(x))
    with _mxnet.quiet():
        executor = symbol.bind(mx.cpu(), args=arguments, grad_req="null")

    def run():
        executor.forward(is_train=False)
        executor.outputs[0].wait_to_read()
        return executor.outputs[0]

    return [Contender("mxnet", run, lambda y, picked: y.asnumpy()[picked])]


PEERS = {"torch": torch, "torch-compile": torch_compile, "onnxruntime": onnxruntime, "mxnet": mxnet}
