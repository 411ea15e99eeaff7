"""A network as PyTorch runs it, eager or compiled, on the CPU or a GPU."""

import contextlib
import os
import shutil
import signal
import threading
from typing import Callable

from ..errors import DeviceError

COMPILE_LIMIT = 120  # seconds for one batch size: longer would be most of the benchmark


def function(torch, steps, where: str = "cpu", memory_format=None) -> Callable:
    """What maps a float32 tensor (n,C,H,W) to the last step's output.

    Parameters
    ----------
    torch
        The package.
    steps
        As `random_network.make` gives them.
    where
        The device that the weights go to.
    memory_format
        Of the convolutions' weights; None leaves them NCHW.
    """

    def tensor(array):
        if array is None:
            return None
        made = torch.from_numpy(array).to(where)
        return made.contiguous(memory_format=memory_format) if memory_format and made.dim() == 4 else made

    layers = [(step.kind, tensor(step.weight), tensor(step.bias), step.size) for step in steps]
    F = torch.nn.functional

    def run(x):
        for kind, weight, bias, size in layers:
            if kind == "convolution":
                x = F.conv2d(x, weight)
            elif kind == "tanh":
                x = torch.tanh(x)
            elif kind == "pool":
                x = F.max_pool2d(x, size)
            elif kind == "flatten":
                x = x.flatten(1)
            elif kind == "dense":
                x = F.linear(x, weight, bias)
            else:
                x = F.softmax(x, 1)
        return x

    return run


def compiled(torch, function: Callable, x, limit: float = COMPILE_LIMIT) -> Callable:
    """The function compiled with mode "max-autotune" for inputs like x, and run thrice: nothing is left to set up.

    Raises
    ------
    DeviceError
        When it cannot be compiled, or not within `limit` seconds; in one line.
    """
    if x.device.type == "cpu" and not shutil.which(os.environ.get("CXX", "g++")):
        raise DeviceError("it needs a C++ compiler (g++, or the one that CXX names)")
    made = torch.compile(function, mode="max-autotune", fullgraph=True, dynamic=False)
    try:
        with _limited(limit), torch.no_grad():
            for _ in range(3):  # CUDA graphs are recorded in the second run and replayed from the third
                made(x)
    except _TooLong:
        raise DeviceError(f"it compiled for more than {limit:g} s") from None
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
        raise DeviceError(f"it does not compile ({type(error).__name__}: {lines[0]})") from None
    return made


class _TooLong(BaseException):
    """Not an Exception: a compiler that catches those and goes on must not catch this."""


@contextlib.contextmanager
def _limited(seconds):
    """Raise _TooLong in the block after so many seconds; no limit outside the main thread, where no signal goes."""
    if threading.current_thread() is not threading.main_thread():
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
