"""Building, loading and registering a kernel file as a kernel of the operator library, if the machine can run it."""

import sys
import threading
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Set, Tuple

from ..errors import DeviceError
from ..library import devices, kernels
from ..system import compilers, installation, isolation
from . import build, plugin
from .formats import KernelFile


class LoadedKernel(NamedTuple):
    name: str  # value for `kernel=`: the file's name
    backend: str  # "cpu" or "gpu"
    file: KernelFile
    batch_multiple: int  # the number of images per call should be a multiple of this
    host_memory: bool  # on the GPU: the file copies data itself and is called with host tensors
    device: int = 0  # index of the GPU
    library: Optional[Path] = None  # the built library, if it is compiled

    @property
    def path(self) -> Path:
        return self.file.path

    @property
    def format(self) -> str:
        return self.file.format.name


TRIAL_IMAGES = 1000  # number of images; the course's GPU files may need a multiple of this
_lock = threading.Lock()
_loaded: Dict[Tuple[str, str], LoadedKernel] = {}  # by file name and key of the plug-in


def load(
    file: KernelFile, verbose: bool = False, arch: Optional[str] = None, device: int = 0, library: Optional[Path] = None
) -> LoadedKernel:
    """Register a kernel file as a kernel of the operator library, under the file's name; DeviceError if that fails.

    A file that changed since this process loaded it becomes a second kernel, such as "new-forward.cu#2". `verbose`
    shows the compiler's warnings on stderr. The file is not built if the caller gives its `library`, from `built`.
    """
    if library is None:
        file, library = built(file, verbose, arch, device)
    if file.format.language == "Python":
        from . import python

        isolation.started()
        made = python.make(file.path, file.backend, device)
    elif file.format.language == "machine code":
        made = plugin.prebuilt(file.path, file.backend)
    else:
        assert library is not None  # a format with an adapter
        made = plugin.opened(library)
    with _lock:
        key = (file.name, made.key)
        if key not in _loaded:
            name = _free_name(file.name)
            plugin.register(name, made)
            description = made.description
            _loaded[key] = LoadedKernel(
                name, made.backend, file, description.batch_multiple, bool(description.host_memory)
            )
        return _loaded[key]._replace(file=file, device=device, library=library)


def built(
    file: KernelFile, verbose: bool = False, arch: Optional[str] = None, device: int = 0
) -> Tuple[KernelFile, Optional[Path]]:
    """Build a kernel file, or find it in the cache; return it with its backend, and the plug-in's path, if compiled."""
    file = file.placed()
    check_requirements(file, arch, device)
    if file.format.adapter is None:
        return file, None
    if file.backend == "gpu" and arch is None:
        arch = build.gpu_arch(device)
    made = build.build(file, arch)
    if verbose and made.warnings:
        print(made.warnings, end="", file=sys.stderr)
    return file, made.library


def names_of_loaded() -> Set[str]:
    return {loaded.name for loaded in list(_loaded.values())}


def _free_name(name: str) -> str:
    taken = names_of_loaded()
    number = 2
    free = name
    while free in taken:
        free, number = f"{name}#{number}", number + 1
    return free


def check_requirements(file: KernelFile, arch: Optional[str] = None, device: int = 0) -> None:
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
