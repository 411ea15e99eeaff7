"""A network as PyTorch runs it, eager or compiled, on the CPU or a GPU."""

import contextlib
import os
import shutil
import signal
import threading
from typing import Callable

from ...errors import DeviceError

COMPILE_LIMIT = 120  # seconds for one batch size: longer would be most of the benchmark


def function(torch, steps, where: str = "cpu", memory_format=None) -> Callable:
    """The module that maps a float32 tensor (n,C,H,W) to the last step's output.

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

    F = torch.nn.functional

    class Network(torch.nn.Module):
        """A module with buffers: for the compiler's CUDA graphs their addresses are fixed, where it would copy the
        weights of a plain function, 14 MB for fa2017, in every run."""

        def __init__(self):
            super().__init__()
            for index, step in enumerate(steps):
                for name, array in (("weight", step.weight), ("bias", step.bias)):
                    if array is not None:
                        self.register_buffer(f"{name}{index}", torch.from_numpy(array))

        def forward(self, x):
            for index, step in enumerate(steps):
                if step.kind == "convolution":
                    x = F.conv2d(x, getattr(self, f"weight{index}"))
                elif step.kind == "tanh":
                    x = torch.tanh(x)
                elif step.kind == "pool":
                    x = F.max_pool2d(x, step.size)
                elif step.kind == "flatten":
                    x = x.flatten(1)
                elif step.kind == "dense":
                    x = F.linear(x, getattr(self, f"weight{index}"), getattr(self, f"bias{index}"))
                else:
                    x = F.softmax(x, 1)
            return x

    made = Network().to(where)
    return made if memory_format is None else made.to(memory_format=memory_format)


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
