"""What this machine can run: CUDA devices, CPU features, and which backend a request ends up on."""

from typing import NamedTuple, Optional

from . import operators
from .errors import DeviceError, UsageError

BACKENDS = ("auto", "cpu", "gpu")


class Choice(NamedTuple):
    """A backend and, where that is not what the user may expect, one line that says why."""

    backend: str  # "cpu" or "gpu"
    notice: Optional[str]


def choose(backend: str = "auto", device: int = 0) -> Choice:
    """The backend that a request runs on.

    Parameters
    ----------
    backend
        "cpu", "gpu", or "auto": the GPU when there is one that the library can use, else the CPU.
    device
        Index of the GPU.

    Raises
    ------
    DeviceError
        When "gpu" was asked for and there is none.
    UsageError
        When there is no such backend.
    """
    if backend not in BACKENDS:
        raise UsageError(f"unknown backend '{backend}'; known: {', '.join(BACKENDS)}")
    if backend == "cpu":
        return Choice("cpu", None)
    if backend == "auto" and not operators.kernels("gpu"):
        return Choice("cpu", None)  # a CPU build: nothing to explain
    try:
        found = operators.cuda_devices()
        if not 0 <= device < len(found):
            raise DeviceError(f"there is no GPU {device}: this machine has {len(found)}, numbered from 0")
    except DeviceError as error:
        if backend == "gpu":
            raise
        return Choice("cpu", f"running on the CPU: {error}")
    return Choice("gpu", None)
