"""Selection of the backend that a request runs on."""

from typing import NamedTuple, Optional

from . import _mxnet
from .errors import DeviceError, UsageError
from .library import devices as cuda
from .library import kernels

BACKENDS = ("auto", "cpu", "gpu")
# Major compute capabilities that mxnet-cu112 supports. It has machine code for 5.0, 6.0, 7.0, 8.0 and 8.6, and no PTX.
# Machine code also runs on later minor versions of the same major version, so 8.9 works and 9.0 does not.
_MXNET_MAJORS = (5, 6, 7, 8)


class Choice(NamedTuple):
    backend: str  # "cpu" or "gpu"
    context: str  # where MXNet keeps its tensors: "cpu", or "gpu" if MXNet's build supports the device
    notice: Optional[str]  # one line that says where the request runs, and why; None if there is nothing to explain


def choose(backend: str = "auto", device: int = 0, mode: str = "operator") -> Choice:
    """Choose the backend: "auto" is the GPU if the library can use one, else the CPU. DeviceError for a missing GPU."""
    if backend not in BACKENDS:
        raise UsageError(f"unknown backend '{backend}'; known: {', '.join(BACKENDS)}")
    if backend == "cpu":
        return Choice("cpu", "cpu", None)
    if backend == "auto" and not kernels.table("gpu"):
        return Choice("cpu", "cpu", None)  # the library was built without CUDA
    try:
        chosen = cuda.cuda_device(device)
    except DeviceError as error:
        if backend == "gpu":
            raise
        return Choice("cpu", "cpu", f"running on the CPU: {error}")
    reason, gpu = mxnet_refusal(chosen), f"GPU {chosen.index}, {chosen.name}"
    if reason is None:
        return Choice("gpu", "gpu", f"{gpu}: the whole network runs there")
    if mode == "fused":
        return Choice("gpu", "cpu", f"{gpu}: the fused stages run there")
    return Choice("gpu", "cpu", f"{gpu}: our operator copies its tensors there and back, {reason}")


def mxnet_refusal(device: cuda.CudaDevice) -> Optional[str]:
    """Return the reason why MXNet itself cannot use a device, as a clause for a message; None if it can use it."""
    if _mxnet.build() != "cu112":
        return "because this is MXNet's CPU build"
    if device.capability[0] not in _MXNET_MAJORS:
        version = ".".join(map(str, device.capability))
        return f"because mxnet-cu112 has no code for compute capability {version} (it has 5.0 to 8.9)"
    return None
