"""MXNet's own Convolution on the CPU, which uses oneDNN."""

import json
from typing import List

import numpy as np

from ... import _mxnet
from ...graph import rewrite
from ..timing import Contender


def convolution(x: np.ndarray, weight: np.ndarray, threads: int) -> List[Contender]:
    _mxnet.set_threads(threads)
    mx = _mxnet.load()
    size = x.shape[2] - weight.shape[2] + 1, x.shape[3] - weight.shape[3] + 1
    data, filters, y = mx.nd.array(x), mx.nd.array(weight), mx.nd.zeros((len(x), len(weight), *size))
    mx.nd.waitall()

    def run():
        mx.nd.Convolution(data, filters, no_bias=True, kernel=weight.shape[2:], num_filter=len(weight), out=y)
        y.wait_to_read()
        return y

    return [Contender("mxnet", run, lambda y, indices: np.stack([y[int(i)].asnumpy() for i in indices]))]


def network(network, x: np.ndarray, threads: int) -> List[Contender]:
    """Return a contender that runs the graph with MXNet's own Convolution node by node, as the baseline programs do."""
    mx = _mxnet.load()  # `machines.cpu` has set MXNet's number of threads
    graph = rewrite.with_operator(json.loads(network.symbol), "builtin")
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
