"""An ONNX model of a single convolution, as bytes: so small that it needs no `onnx` package to write it.

Field numbers are those of onnx.proto (ModelProto, GraphProto, NodeProto, TensorProto, ValueInfoProto).
"""

import numpy as np

_FLOAT, _IR_VERSION, _OPSET = 1, 8, 13


def convolution(weight: np.ndarray, x_shape) -> bytes:
    """y = Conv(x, w): valid, stride 1, no bias.

    Parameters
    ----------
    weight
        (M,C,K,K) float32.
    x_shape
        (B,C,H,W).
    """
    side = weight.shape[2]
    y_shape = (x_shape[0], len(weight), x_shape[2] - side + 1, x_shape[3] - side + 1)
    node = _text(1, "x") + _text(1, "w") + _text(2, "y") + _text(4, "Conv")
    dims = b"".join(_number(1, n) for n in weight.shape)
    filters = dims + _number(2, _FLOAT) + _text(8, "w") + _block(9, np.ascontiguousarray(weight, "<f4").tobytes())
    graph = _block(1, node) + _text(2, "convolution") + _block(5, filters)
    graph += _block(11, _value("x", x_shape)) + _block(12, _value("y", y_shape))
    return _number(1, _IR_VERSION) + _block(7, graph) + _block(8, _text(1, "") + _number(2, _OPSET))


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
