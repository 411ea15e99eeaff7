"""ONNX models of a convolution or a whole network, as bytes: so small that it needs no `onnx` package to write them.

Field numbers are those of onnx.proto (ModelProto, GraphProto, NodeProto, AttributeProto, TensorProto, ValueInfoProto).
"""

import numpy as np

from .. import random_network

_FLOAT, _IR_VERSION, _OPSET = 1, 8, 13
_INT, _INTS = 2, 7  # of AttributeProto.AttributeType


def convolution(weight: np.ndarray, x_shape) -> bytes:
    """y = Conv(x, w): valid, stride 1, no bias.

    Parameters
    ----------
    weight
        (M,C,K,K) float32.
    x_shape
        (B,C,H,W).
    """
    return network([random_network.Step("convolution", weight)], x_shape)


def network(steps, x_shape) -> bytes:
    """A chain of layers, from the float32 input `x` to the float32 output `y`.

    Parameters
    ----------
    steps
        As `random_network.make` gives them.
    x_shape
        (B,C,H,W).
    """
    nodes, weights, source = b"", b"", "x"
    for number, step in enumerate(steps):
        names = []
        for role, array in (("w", step.weight), ("b", step.bias)):
            if array is not None:
                names.append(f"{role}{number}")
                weights += _block(5, _tensor(names[-1], array))
        made = "y" if number == len(steps) - 1 else f"t{number}"
        nodes += _block(1, _node(step, [source, *names], made))
        source = made
    y_shape = (x_shape[0], *random_network.shapes(steps, x_shape[1:])[-1])
    graph = nodes + _text(2, "network") + weights
    graph += _block(11, _value("x", x_shape)) + _block(12, _value("y", y_shape))
    return _number(1, _IR_VERSION) + _block(7, graph) + _block(8, _text(1, "") + _number(2, _OPSET))


def _node(step, inputs, output):
    operator, attributes = {
        "convolution": ("Conv", b""),
        "tanh": ("Tanh", b""),
        "pool": ("MaxPool", _sizes("kernel_shape", step.size) + _sizes("strides", step.size)),
        "flatten": ("Flatten", b""),
        "dense": ("Gemm", _block(5, _text(1, "transB") + _number(3, 1) + _number(20, _INT))),  # y = x w' + b
        "softmax": ("Softmax", b""),
    }[step.kind]
    return b"".join(_text(1, name) for name in inputs) + _text(2, output) + _text(4, operator) + attributes


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
