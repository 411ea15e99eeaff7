"""Kernels in Python on torch tensors: `conv_forward(x, k)`, KernelBot's `custom_kernel(data)` and LeetGPU's `solve`.

The tensors are views of the library's memory, on the host or on the device. Only the result is copied.
"""

import hashlib
import inspect
import time
from pathlib import Path

from ..errors import DeviceError, UsageError
from . import functions, plugin


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
        if functions.checked(result, shape) is not y:
            y[...] = result
        settle()

    key = hashlib.sha256(path.read_bytes() + str(path.resolve()).encode() + place.encode()).hexdigest()
    return plugin.described(
        run, backend, "python", key, host_memory=backend == "cpu", takes=takes, source=path.resolve()
    )


def _function(path: Path):
    """Return the file's function of (data, weights, output), and a test of the sizes that it supports; None for all."""
    source = path.resolve()  # tracebacks name it
    try:
        function, one_channel = functions.load(source, f"fashion_infer_kernel_{abs(hash(path))}")
    except ImportError as error:
        raise DeviceError(f"{path} imports a missing module: {error}") from None
    except (Exception, SystemExit) as error:
        line = next((frame.lineno for frame in reversed(inspect.trace()) if frame.filename == str(source)), None)
        where = f"{path}:{line}" if line else str(path)
        raise UsageError(f"{where}: {type(error).__name__}: {error}") from None
    return function, (lambda conv: conv.C == 1) if one_channel else None


def _view(torch, address, shape, place):
    if place == "cpu":
        return torch.from_numpy(plugin.floats_at(address, shape))
    interface = {"shape": tuple(shape), "typestr": "<f4", "data": (address, False), "version": 3}
    return torch.as_tensor(type("Memory", (), {"__cuda_array_interface__": interface})(), device=place)
