"""From a kernel file to a kernel of the operator library: build, load, register."""

import sys
import threading
from pathlib import Path
from typing import Dict, NamedTuple, Optional, Set, Tuple

from ..system import isolation
from . import build, plugin, requirements
from .formats import KernelFile


class LoadedKernel(NamedTuple):
    """A kernel file that is a kernel of the operator library now."""

    name: str  # what `kernel=` takes: the file's name
    backend: str  # "cpu" or "gpu"
    file: KernelFile
    batch_multiple: int  # calls should have a multiple of this many images
    host_memory: bool  # on the GPU: the file copies by itself, and is called with host tensors
    device: int = 0  # index of the GPU that it was loaded for
    library: Optional[Path] = None  # what was built of it, where it is compiled

    @property
    def path(self) -> Path:
        """The file's path, as the user named it."""
        return self.file.path

    @property
    def format(self) -> str:
        """The name of the file's format."""
        return self.file.format.name


THOUSAND = 1000  # images: what files of the course's years on the GPU may need a multiple of
_lock = threading.Lock()
_loaded: Dict[Tuple[str, str], LoadedKernel] = {}  # by file name and what was built from it


def load(
    file: KernelFile,
    verbose: bool = False,
    arch: Optional[str] = None,
    device: int = 0,
    library: Optional[Path] = None,
) -> LoadedKernel:
    """Make a kernel file a kernel of the operator library, under the file's name.

    A file that was changed since it was loaded in this process becomes a second kernel, as in "new-forward.cu#2".

    Parameters
    ----------
    file
        From `formats.recognise`.
    verbose
        Show the compiler's warnings on stderr.
    arch
        GPU architecture to compile for, for instance "90a"; that of the device when None.
    device
        Index of the GPU that is going to run it.
    library
        What `built` made of it; built when None.

    Raises
    ------
    DeviceError
        When the file cannot be built or loaded, or is for a GPU and there is none.
    """
    if library is None:
        file, library = built(file, verbose, arch, device)
    if file.format.name == "python":
        from . import python

        isolation.started()
        made = python.make(file.path, file.backend, device)
    elif file.format.name == "prebuilt":
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
    """Build a kernel file, or find what was built of it; none of its code runs.

    Parameters are those of `load`, and so are the errors raised.

    Returns
    -------
    tuple
        The file with the backend that it runs on, and the plug-in's library: None where nothing is compiled.
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
    """The names under which this process has kernel files."""
    return {loaded.name for loaded in list(_loaded.values())}


def _free_name(name: str) -> str:
    taken = names_of_loaded()
    number = 2
    free = name
    while free in taken:
        free, number = f"{name}#{number}", number + 1
    return free
