"""ONNX models of chains of layers, as bytes: so small that it needs no `onnx` package to write them.

Field numbers are those of onnx.proto (ModelProto, GraphProto, NodeProto, AttributeProto, TensorProto, ValueInfoProto).
"""

from typing import Dict, Sequence

import numpy as np

from ...graph.layers import Convolution, Dense, Flatten, Layer, MaxPool, Relu, Softmax, Tanh, walk

_FLOAT, _IR_VERSION, _OPSET = 1, 8, 13
_INT, _INTS = 2, 7  # of AttributeProto.AttributeType


def network(layers: Sequence[Layer], weights: Dict[str, np.ndarray], x_shape) -> bytes:
    """A chain of layers, from the float32 input `x` to the float32 output `y`.

    Parameters
    ----------
    layers
        In the order of the network.
    weights
        float32, by the names that `walk` gives them.
    x_shape
        (B,C,H,W).
    """
    nodes, initializers, source = b"", b"", "x"
    steps = list(walk(layers, tuple(x_shape[1:])))
    for number, step in enumerate(steps):
        for name in step.parameters:
            initializers += _block(5, _tensor(name, weights[name]))
        target = "y" if number == len(steps) - 1 else f"t{number}"
        nodes += _block(1, _node(step.layer, [source, *step.parameters], target))
        source = target
    graph = nodes + _text(2, "network") + initializers
    graph += _block(11, _value("x", x_shape)) + _block(12, _value("y", (x_shape[0], *steps[-1].output)))
    return _number(1, _IR_VERSION) + _block(7, graph) + _block(8, _text(1, "") + _number(2, _OPSET))


_OPERATORS = {
    Convolution: "Conv",
    Tanh: "Tanh",
    Relu: "Relu",
    MaxPool: "MaxPool",
    Flatten: "Flatten",
    Dense: "Gemm",
    Softmax: "Softmax",
}


def _node(layer, inputs, output):
    attributes = b""
    if isinstance(layer, MaxPool):
        attributes = _sizes("kernel_shape", layer.size) + _sizes("strides", layer.step)
        attributes += _switch("ceil_mode") if layer.full else b""
    elif isinstance(layer, Dense):
        attributes = _switch("transB")  # y = x w' + b
    names = b"".join(_text(1, name) for name in inputs) + _text(2, output)
    return names + _text(4, _OPERATORS[type(layer)]) + attributes


def _switch(name):
    """An attribute that is 1."""
    return _block(5, _text(1, name) + _number(3, 1) + _number(20, _INT))


def _sizes(name, size):
    """The attribute of a square window."""
    return _block(5, _text(1, name) + _number(8, size) * 2 + _number(20, _INTS))


def _tensor(name, array):
    dims = b"".join(_number(1, n) for n in array.shape)
    return dims + _number(2, _FLOAT) + _text(8, name) + _block(9, np.ascontiguousarray(array, "<f4").tobytes())


def _value(name, shape):
    dims = b"".join(_block(1, _number(1, n)) for n in shape)
    return _text(1, name) + _block(2, _block(1, _number(1, _FLOAT) + _block(2, dims)))


def _text(field, text):
    return _block(field, text.encode())


def _block(field, content):
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _number(field, value):
    return _varint(field << 3) + _varint(value)


def _varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])
