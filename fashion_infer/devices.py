"""Selection of the backend that a request runs on."""

from typing import NamedTuple, Optional, Sequence, Tuple, Union

from . import _mxnet
from .errors import DeviceError, UsageError
from .library import devices as cuda
from .library import kernels

BACKENDS = ("auto", "cpu", "gpu")
ALL = "all"  # stands for all GPUs, instead of the index of one
Device = Union[int, str]
# Major compute capabilities that mxnet-cu112 supports. It has machine code for 5.0, 6.0, 7.0, 8.0 and 8.6, and no PTX.
# Machine code also runs on later minor versions of the same major version, so 8.9 works and 9.0 does not.
_MXNET_MAJORS = (5, 6, 7, 8)


class Choice(NamedTuple):
    backend: str  # "cpu" or "gpu"
    context: str  # where MXNet keeps its tensors: "cpu", or "gpu" if MXNet's build supports the device
    notice: Optional[str]  # one line that says where the request runs, and why; None if there is nothing to explain


def choose(backend: str = "auto", device: Device = 0, mode: str = "operator") -> Choice:
    """Choose the backend: "auto" is the GPU if the library can use one, else the CPU. DeviceError for a missing GPU."""
    if backend not in BACKENDS:
        raise UsageError(f"unknown backend '{backend}'; known: {', '.join(BACKENDS)}")
    if backend == "cpu":
        return Choice("cpu", "cpu", None)
    if backend == "auto" and not kernels.table("gpu"):
        return Choice("cpu", "cpu", None)  # the library was built without CUDA
    try:
        present = _chosen(device)
    except DeviceError as error:
        if backend == "gpu":
            raise
        return Choice("cpu", "cpu", f"running on the CPU: {error}")
    reason = next(filter(None, map(mxnet_refusal, present)), None)
    many = len(present) > 1
    gpu = f"GPU{'s' if many else ''} {' and '.join(str(each.index) for each in present)}, {present[0].name}"
    if reason is None:
        return Choice("gpu", "gpu", f"{gpu}: the whole network runs there{', its images split' if many else ''}")
    if mode == "fused":
        return Choice("gpu", "cpu", f"{gpu}: the fused stages run there{', the images split' if many else ''}")
    return Choice("gpu", "cpu", f"{gpu}: our operator copies its tensors there and back, {reason}")


def indices(device: Device) -> Tuple[int, ...]:
    """Return the indices of the chosen GPUs; raise DeviceError for `ALL` when there is no GPU."""
    return tuple(each.index for each in cuda.cuda_devices()) if device == ALL else (int(device),)


def _chosen(device: Device) -> Sequence[cuda.CudaDevice]:
    present = cuda.cuda_devices()
    if device == ALL:
        return present
    if not 0 <= int(device) < len(present):
        raise DeviceError(f"there is no GPU {device}: this machine has {len(present)}, numbered from 0")
    return [present[int(device)]]


def mxnet_refusal(device: cuda.CudaDevice) -> Optional[str]:
    """Return the reason why MXNet itself cannot use a device, as a clause for a message; None if it can use it."""
    if _mxnet.build() != "cu112":
        return "because this is MXNet's CPU build"
    if device.capability[0] not in _MXNET_MAJORS:
        version = ".".join(map(str, device.capability))
        return f"because mxnet-cu112 has no code for compute capability {version} (it has 5.0 to 8.9)"
    return None
