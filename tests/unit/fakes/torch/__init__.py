"""The part of PyTorch that the benchmarks call, implemented with NumPy for tests on machines without PyTorch."""

import contextlib
import types

import numpy as np

__version__ = "fake"
contiguous_format, channels_last = "NCHW", "NHWC"


class Tensor(np.ndarray):
    """An array with the methods that a tensor has and an array lacks."""

    device = types.SimpleNamespace(type="cpu")

    def contiguous(self, memory_format=None):
        return np.ascontiguousarray(self).view(Tensor)

    def numpy(self):
        return np.asarray(self)

    def float(self):
        return self.astype(np.float32)

    def to(self, *where, **options):
        return self

    def flatten(self, start=0):
        return self.reshape(*self.shape[:start], -1)

    def argmax(self, axis):
        return np.argmax(np.asarray(self), axis).view(Tensor)

    def copy_(self, other, non_blocking=False):
        self[...] = other

    def fill_(self, value):
        self.fill(value)

    def data_ptr(self):
        return self.ctypes.data


def from_numpy(array):
    return array.view(Tensor)


def empty(shape):
    return np.empty(shape, np.float32).view(Tensor)


def zeros(*shape):
    return np.zeros(shape, np.float32).view(Tensor)


def tanh(x):
    return np.tanh(x)


def relu(x):
    return np.maximum(x, 0)


def compile(function, **options):
    return function


def set_num_threads(count):
    assert count >= 1


def set_float32_matmul_precision(precision):
    assert precision in ("high", "highest")


@contextlib.contextmanager
def no_grad():
    yield


inference_mode = no_grad


@contextlib.contextmanager
def _flags(enabled, benchmark, allow_tf32):
    yield


def _conv2d(x, weight):
    windows = np.lib.stride_tricks.sliding_window_view(np.asarray(x, np.float32), weight.shape[2:], axis=(2, 3))
    y = np.einsum("bchwpq,mcpq->bmhw", windows, np.asarray(weight), optimize=True)
    return np.ascontiguousarray(y).view(Tensor)


def _max_pool2d(x, size, stride=None, ceil_mode=False):
    """Max pooling, window by window; in ceil mode the last windows may be cut off by the border."""
    stride = stride or size
    ends = [edge - size + (stride if ceil_mode else 1) for edge in x.shape[2:]]
    rows, columns = ([at for at in range(0, end, stride) if at < edge] for end, edge in zip(ends, x.shape[2:]))
    x = np.asarray(x)
    found = [[x[:, :, i : i + size, j : j + size].max(axis=(2, 3)) for j in columns] for i in rows]
    return np.ascontiguousarray(np.array(found).transpose(2, 3, 0, 1)).view(Tensor)


def _linear(x, weight, bias=None):
    y = np.asarray(x) @ np.asarray(weight).T
    return (y if bias is None else y + np.asarray(bias)).view(Tensor)


def _softmax(x, axis):
    powers = np.exp(np.asarray(x) - np.asarray(x).max(axis, keepdims=True))
    return (powers / powers.sum(axis, keepdims=True)).view(Tensor)


class _Module:
    def register_buffer(self, name, tensor):
        setattr(self, name, tensor)

    def to(self, *where, **options):
        return self

    def __call__(self, x):
        return self.forward(x)


_dynamo = types.SimpleNamespace(reset=lambda: None)
backends = types.SimpleNamespace(cudnn=types.SimpleNamespace(flags=_flags))
nn = types.SimpleNamespace(
    Module=_Module,
    functional=types.SimpleNamespace(conv2d=_conv2d, max_pool2d=_max_pool2d, linear=_linear, softmax=_softmax),
)
