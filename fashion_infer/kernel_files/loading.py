"""Building, loading and registering a kernel file as a kernel of the operator library."""

import sys
import threading
from pathlib import Path
from typing import Dict, NamedTuple, Optional, Set, Tuple

from ..system import isolation
from . import build, plugin, requirements
from .formats import KernelFile


class LoadedKernel(NamedTuple):
    """A kernel file registered as a kernel of the operator library."""

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
    """Build a kernel file as `load` does, or find it in the cache; none of its code runs.

    Return the file with the backend that it runs on, and the plug-in's path; None if nothing is compiled.
    """
    file = file.placed()
    requirements.check(file, arch, device)
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
