"""Imports a kernel file in Python. This module runs in the sandbox too, so it imports only the standard library."""

import contextlib
import importlib.machinery
import importlib.util
import sys
import types
from pathlib import Path
from typing import Any, Callable, Tuple


def load(path: Path, name: str) -> Tuple[Callable, bool]:
    """Import a file as the module `name`; return its function of (data, weights, output), and whether the data must
    have one channel. AttributeError if it defines no such function; whatever the file raises."""
    loader = importlib.machinery.SourceFileLoader(name, str(path))  # by default, only for the suffix .py, not .PY
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # Triton looks up a kernel's module here
    with _import_path(path.parent):
        loader.exec_module(module)
    if callable(getattr(module, "conv_forward", None)):
        return (lambda x, k, y: module.conv_forward(x, k)), False
    if callable(getattr(module, "custom_kernel", None)):
        return _of_kernelbot(module.custom_kernel), False
    if callable(getattr(module, "solve", None)):
        return _of_leetgpu(module.solve), True
    raise AttributeError("it defines neither conv_forward(x, k), custom_kernel(data) nor solve")


def checked(result: Any, shape: Tuple[int, ...]) -> Any:
    """Return a function's result; ValueError if it is not a tensor of this shape."""
    if result is None:
        raise ValueError("it returned None, not the output")
    if tuple(result.shape) != shape:
        raise ValueError(f"it returned a tensor of shape {tuple(result.shape)}, not {shape}")
    return result


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
        if x.shape[1] != 1:
            raise ValueError("solve convolves data of one channel")
        for image in range(x.shape[0]):
            for number in range(k.shape[0]):
                one, taps = x[image, 0], k[number, 0]
                solve(one, taps, y[image, number], *one.shape, *taps.shape)
        return y

    return call
