"""Kernels in Python on torch tensors: `conv_forward(x, k)`, KernelBot's `custom_kernel(data)` and LeetGPU's `solve`.

The tensors are views of the library's memory, on the host or on the device. Only the result is copied.
"""

import contextlib
import hashlib
import importlib.util
import inspect
import sys
import time
import types
from pathlib import Path
from typing import Any

from ..errors import DeviceError, UsageError
from . import plugin


def make(path: Path, backend: str, device: int = 0) -> plugin.Plugin:
    """Import a Python file, and create a plug-in from its function; UsageError, or DeviceError for a missing module."""
    try:
        import torch
    except ImportError:
        raise DeviceError(f"{path} is a Python kernel, which needs PyTorch: pip install torch") from None
    function, takes = _function(path)
    place = f"cuda:{device}" if backend == "gpu" else "cpu"

    def settle():
        if backend == "gpu":
            torch.cuda.synchronize(device)

    def run(call):
        if backend == "gpu":
            torch.cuda.set_device(device)  # for the file's own allocations
        conv = call.conv
        x = _view(torch, call.x, (conv.B, conv.C, conv.H, conv.W), place)
        k = _view(torch, call.k, (conv.M, conv.C, conv.K, conv.K), place)
        shape = (conv.B, conv.M, conv.H - conv.K + 1, conv.W - conv.K + 1)
        y = _view(torch, call.y, shape, place)
        settle()
        start = time.perf_counter()
        result = function(x, k, y)
        settle()
        call.op_seconds = time.perf_counter() - start
        if result is None:
            raise ValueError("it returned None, not the output")
        if tuple(result.shape) != shape:
            raise ValueError(f"it returned a tensor of shape {tuple(result.shape)}, not {shape}")
        if result is not y:
            y[...] = result
        settle()

    key = hashlib.sha256(path.read_bytes() + str(path.resolve()).encode() + place.encode()).hexdigest()
    return plugin.described(
        run, backend, "python", key, host_memory=backend == "cpu", takes=takes, source=path.resolve()
    )


def _function(path: Path):
    """Return the file's function of (data, weights, output), and a test of the sizes that it supports; None for all."""
    source = path.resolve()  # tracebacks name it
    spec = importlib.util.spec_from_file_location(f"fashion_infer_kernel_{abs(hash(path))}", source)
    assert spec is not None and spec.loader is not None  # true for every path that ends in .py
    module = importlib.util.module_from_spec(spec)
    try:
        with _import_path(source.parent):
            spec.loader.exec_module(module)
    except ImportError as error:
        raise DeviceError(f"{path} imports a missing module: {error}") from None
    except (Exception, SystemExit) as error:
        line = next((frame.lineno for frame in reversed(inspect.trace()) if frame.filename == str(source)), None)
        where = f"{path}:{line}" if line else str(path)
        raise UsageError(f"{where}: {type(error).__name__}: {error}") from None
    if callable(getattr(module, "conv_forward", None)):
        return (lambda x, k, y: module.conv_forward(x, k)), None
    if callable(getattr(module, "custom_kernel", None)):
        return _of_kernelbot(module.custom_kernel), None
    if callable(getattr(module, "solve", None)):
        return _of_leetgpu(module.solve), lambda conv: conv.C == 1
    raise UsageError(f"{path} defines neither conv_forward(x, k), custom_kernel(data) nor solve")


@contextlib.contextmanager
def _import_path(folder: Path):
    """Allow imports of files next to the kernel, and of KernelBot's `task`, whose types are only in annotations.

    Modules from the folder are forgotten afterwards, because another kernel may have a file of the same name.
    """
    before = set(sys.modules)
    sys.path.insert(0, str(folder))
    if importlib.util.find_spec("task") is None:
        task = types.ModuleType("task")
        task.input_t = task.output_t = task.TestSpec = Any  # type: ignore[attr-defined]
        sys.modules["task"] = task
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name in set(sys.modules) - before:
            if Path(getattr(sys.modules[name], "__file__", None) or "").parent == folder:
                del sys.modules[name]


def _of_kernelbot(custom_kernel):
    """Adapt KernelBot's function: data is (input, kernel, output), or (input, kernel) in its first version."""
    count = 3

    def call(x, k, y):
        nonlocal count
        try:
            return custom_kernel((x, k, y)[:count])
        except ValueError as error:
            if count == 2 or "too many values to unpack (expected 2" not in str(error):
                raise
            count = 2
            return custom_kernel((x, k))

    return call


def _of_leetgpu(solve):
    """Adapt LeetGPU's function, which convolves one image with one filter."""

    def call(x, k, y):
        for image in range(x.shape[0]):
            for number in range(k.shape[0]):
                one, taps = x[image, 0], k[number, 0]
                solve(one, taps, y[image, number], *one.shape, *taps.shape)
        return y

    return call


def _view(torch, address, shape, place):
    if place == "cpu":
        return torch.from_numpy(plugin.floats_at(address, shape))
    interface = {"shape": tuple(shape), "typestr": "<f4", "data": (address, False), "version": 3}
    return torch.as_tensor(type("Memory", (), {"__cuda_array_interface__": interface})(), device=place)
