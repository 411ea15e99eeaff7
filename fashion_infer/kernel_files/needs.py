"""What a kernel file needs of the machine, said in one line before any time is spent."""

from typing import List, Optional

from ..errors import DeviceError
from ..library import devices, kernels
from ..system import compilers
from .formats import Recognised


def check(recognised: Recognised, backend: Optional[str], arch: Optional[str] = None, device: int = 0) -> None:
    """Raise DeviceError when the machine lacks something.

    Parameters
    ----------
    recognised
        The file with its format.
    backend
        Where the file runs, "cpu" or "gpu"; None, as for the former, where nobody said.
    arch
        The architecture, where one was named: then the file is compiled, and no GPU is needed for that.
    device
        Index of the GPU.
    """
    on_gpu = backend == "gpu"
    missing: List[str] = []
    if recognised.format.adapter:
        if compilers.find_cxx() is None:
            missing.append(f"no C++ compiler for {recognised.path.name} (Debian: apt install build-essential)")
        if on_gpu and compilers.find_nvcc() is None:
            missing.append("it needs the CUDA compiler: pip install 'fashion-infer[gpu]'")
    if on_gpu and arch is None:
        missing += _of_the_gpu(device)
    if missing:
        raise DeviceError(f"{recognised.path} cannot run here (format {recognised.format.name}): {'; '.join(missing)}")


def device_usable(backend: str) -> bool:
    """Whether the device still answers, after a call that failed: an illegal address, for one, is the end of it for the
    process."""
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
