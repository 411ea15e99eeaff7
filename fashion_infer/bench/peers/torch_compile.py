"""PyTorch's compiler in mode max-autotune, on the CPU and on a GPU."""

import contextlib
import os
import shutil
import signal
import threading
from typing import Callable, Dict, List, Tuple

import numpy as np

from ...errors import DeviceError
from ..timing import Contender
from . import torch as eager

COMPILE_LIMIT = 120  # time limit per batch size in seconds, so that compilation does not dominate the benchmark


def network(network, x: np.ndarray, threads: int) -> List[Contender]:
    pytorch = eager.load(threads)
    pytorch._dynamo.reset()  # otherwise a second batch size is compiled for dynamic sizes
    data = pytorch.from_numpy(x)
    function = compile_in_time(pytorch, eager.module(pytorch, network), data)

    def run():
        with pytorch.no_grad():
            return function(data)

    return [Contender("torch-compile", run, lambda y, picked: y[picked].numpy())]


def network_on_gpu(tensors, network, images: np.ndarray, to_host: bool) -> List[Contender]:
    """Compile the network and return it as contenders in float32 and TF32."""
    functions = _by_precision(tensors, network, images)
    memory = tensors.torch.contiguous_format
    contenders = []
    for name, tf32 in eager.PRECISIONS:
        run, sample = eager.runner(tensors, functions[name], images, to_host, tf32, memory)
        contenders.append(Contender(f"torch-compile {name}", run, sample))
    return contenders


_latest: Dict[Tuple, Dict[str, Callable]] = {}


def _by_precision(tensors, network, images):
    """Return the compiled functions by precision. A call with the last network and shape reuses the last functions."""
    pytorch, key = tensors.torch, (network.symbol, images.shape)
    if key not in _latest:
        _latest.clear()
        pytorch._dynamo.reset()  # otherwise a second batch size is compiled for dynamic sizes
        example = pytorch.from_numpy(images).to(tensors.where).float()
        functions = {}
        for name, tf32 in eager.PRECISIONS:
            eager.set_precision(pytorch, tf32)
            functions[name] = compile_in_time(pytorch, eager.module(pytorch, network, tensors.where), example)
        _latest[key] = functions
    return _latest[key]


def compile_in_time(torch, function: Callable, x, limit: float = COMPILE_LIMIT) -> Callable:
    """Compile a function for inputs like `x` and run it three times; DeviceError if that takes too long or fails."""
    if x.device.type == "cpu" and not shutil.which(os.environ.get("CXX", "g++")):
        raise DeviceError("it needs a C++ compiler (g++, or the one that CXX names)")
    result = torch.compile(function, mode="max-autotune", fullgraph=True, dynamic=False)
    try:
        with _limited(limit), torch.no_grad():
            for _ in range(3):  # CUDA graphs are recorded in the second run and replayed from the third
                result(x)
    except _TooLong:
        raise DeviceError(f"it compiled for more than {limit:g} s") from None
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
        raise DeviceError(f"it does not compile ({type(error).__name__}: {lines[0]})") from None
    return result


class _TooLong(BaseException):
    """Raised at the time limit. It is not an Exception, so that the compiler's `except Exception` does not catch it."""


@contextlib.contextmanager
def _limited(seconds):
    """Return a context that raises _TooLong after `seconds`; it does nothing in threads other than the main thread."""
    if threading.current_thread() is not threading.main_thread():  # only the main thread receives signals
        yield
        return

    def raise_it(*_):
        raise _TooLong

    before = signal.signal(signal.SIGALRM, raise_it)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
