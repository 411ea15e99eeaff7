"""Early check of a kernel file's requirements on the machine."""

from typing import List, Optional

from ..errors import DeviceError
from ..library import devices, kernels
from ..system import compilers, installation
from .formats import KernelFile


def check(file: KernelFile, arch: Optional[str] = None, device: int = 0) -> None:
    """Raise DeviceError if the machine lacks something. With `arch`, the file is only compiled, which needs no GPU."""
    on_gpu = file.backend == "gpu"
    missing: List[str] = []
    if file.format.adapter:
        if compilers.find_cxx() is None:
            missing.append(f"no C++ compiler for {file.name} ({compilers.CXX_PACKAGES})")
        if on_gpu and compilers.find_nvcc() is None:
            missing.append(f"it needs the CUDA compiler: {installation.extra('gpu')}")
    if on_gpu and arch is None:
        missing += _of_the_gpu(device)
    if missing:
        raise DeviceError(f"{file.path} cannot run here (format {file.format.name}): {'; '.join(missing)}")


def device_usable(backend: str) -> bool:
    """Return whether this process can still use the device after a failed call, such as one with an illegal address."""
    if backend != "gpu":
        return True
    try:
        return bool(devices.cuda_devices())
    except DeviceError:
        return False


def _of_the_gpu(device: int) -> List[str]:
    if not kernels.table("gpu"):
        return ["the operator library was built without CUDA: rebuild it with `make setup BACKEND=gpu`"]
    try:
        devices.cuda_device(device)
    except DeviceError as error:
        return [str(error)]
    return []
