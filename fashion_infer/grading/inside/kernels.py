"""Loads a submission so that it can be called: a plug-in, a library with the plain C function, or a file in Python."""

import ctypes
import importlib.util
import os
import time
from pathlib import Path
from typing import Any, Callable, NamedTuple

from . import abi


class WorkerKernel(NamedTuple):
    run: Callable[[abi.PluginCall], int]  # makes a call, and returns its status
    zero_output: bool = False  # whether its output must be zero before a call
    kept: Any = None  # objects that must exist as long as `run` is called


def load(kind: str, path: str, gpu: bool) -> WorkerKernel:
    """Load a submission, whose code then shares this process. `kind` is "plugin", "c" or "python"; `gpu` says whether
    the tensors of the latter two are in GPU memory."""
    return {"plugin": _plugin, "c": _plain_c, "python": _python}[kind](path, gpu)


def _plugin(path: str, gpu: bool) -> WorkerKernel:
    library = ctypes.CDLL(path)
    main = library.fops_kernel_plugin_main
    main.restype = ctypes.POINTER(abi.PluginDescription)
    found = main().contents
    run = found.run
    return WorkerKernel(lambda call: run(ctypes.byref(call)), bool(found.zero_output), (library, found))


def _plain_c(path: str, gpu: bool) -> WorkerKernel:
    function = ctypes.CDLL(path).conv_forward
    function.restype = None
    function.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_int] * 6 + ([ctypes.c_void_p] if gpu else [])

    def run(call: abi.PluginCall) -> int:
        conv = call.conv
        stream = [call.stream] if gpu else []
        start = time.perf_counter()
        function(call.x, call.k, call.y, conv.B, conv.M, conv.C, conv.H, conv.W, conv.K, *stream)
        call.op_seconds = -1.0 if gpu else time.perf_counter() - start
        return abi.OK

    return WorkerKernel(run)


def _python(path: str, gpu: bool) -> WorkerKernel:
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # compile in this process, without a pool of processes
    os.environ["TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS"] = "0"  # they have more bytes than a box may write
    import torch

    # The sandbox shows this file of the package, but not the package.
    place = Path(__file__).parents[2] / "kernel_files" / "functions.py"
    spec = importlib.util.spec_from_file_location("functions", place)
    assert spec is not None and spec.loader is not None
    functions = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(functions)
    function, _ = functions.load(Path(path), "submission")

    def view(address: int, *shape: int):
        count = 1
        for size in shape:
            count *= size
        if not gpu:
            return torch.frombuffer((ctypes.c_float * count).from_address(address), dtype=torch.float32).reshape(shape)
        interface = {"shape": shape, "typestr": "<f4", "data": (address, False), "version": 3}
        return torch.as_tensor(type("Memory", (), {"__cuda_array_interface__": interface})(), device="cuda")

    def run(call: abi.PluginCall) -> int:
        conv = call.conv
        y = view(call.y, conv.B, conv.M, conv.H - conv.K + 1, conv.W - conv.K + 1)
        start = time.perf_counter()
        result = function(view(call.x, conv.B, conv.C, conv.H, conv.W), view(call.k, conv.M, conv.C, conv.K, conv.K), y)
        if functions.checked(result, tuple(y.shape)) is not y:
            y[...] = result
        call.op_seconds = -1.0 if gpu else time.perf_counter() - start
        return abi.OK

    return WorkerKernel(run)
