"""From a kernel file to a kernel of the operator library: recognise, build, load, register."""

import sys
import threading
from pathlib import Path
from typing import Dict, NamedTuple, Optional, Set, Tuple

from ..errors import DeviceError
from ..library import devices, kernels
from ..system import isolation
from . import build, formats, needs, plugin
from .formats import Recognised


class Loaded(NamedTuple):
    """A kernel file that is a kernel of the operator library now."""

    name: str  # what `kernel=` takes: the file's name
    backend: str  # "cpu" or "gpu"
    path: Path
    format: str
    batch_multiple: int  # calls should have a multiple of so many images
    host_memory: bool  # on the GPU: copies by itself, and is called with host tensors


def backend_of(path, format: Optional[str] = None, backend: str = "auto") -> str:
    """The backend that a kernel file runs on: what was asked for, else what its format says, and of a Python file or a
    library the GPU where there is one.

    Raises
    ------
    UsageError
        When the file is missing or no kernel.
    """
    if backend != "auto":
        return backend
    recognised = formats.recognise(path, format)
    if recognised.format.backend != "any":
        return recognised.format.backend
    if recognised.format.name == "prebuilt":
        return plugin.backend_of(recognised.path)
    try:
        return "gpu" if kernels.table("gpu") and devices.cuda_devices() else "cpu"
    except DeviceError:
        return "cpu"


_lock = threading.Lock()
_loaded: Dict[Tuple[str, str], Loaded] = {}  # by file name and what was built from it


def load(path, format: Optional[str] = None, backend: Optional[str] = None, verbose: bool = False,
         arch: Optional[str] = None, device: int = 0) -> Loaded:  # fmt: skip
    """Make a kernel file a kernel of the operator library, under the file's name.

    A file that was changed since it was loaded in this process becomes a second kernel, as in "new-forward.cu#2".

    Parameters
    ----------
    path
        The file.
    format, backend
        To insist on a format, or on the "cpu" or "gpu" part of a file that has both. A prebuilt library or a Python
        file does not say: without a backend a library that names CUDA is for the GPU, all else for the CPU. Of a
        library the formats c-cpu and c-gpu say where its pointers lie.
    verbose
        Show the compiler's warnings on stderr.
    arch
        GPU architecture to compile for, "90a" for instance; that of the device when None.
    device
        Index of the GPU that is going to run it.

    Raises
    ------
    UsageError
        When the file is missing or no kernel.
    DeviceError
        When it cannot be built or loaded, or is for a GPU and there is none.
    """
    return register(formats.recognise(path, format, backend), backend, verbose, arch, device)


def register(recognised: Recognised, backend: Optional[str] = None, verbose: bool = False,
             arch: Optional[str] = None, device: int = 0) -> Loaded:  # fmt: skip
    """`load` from the point where the format is known."""
    kind = recognised.format.name
    if recognised.format.backend != "any":
        backend = recognised.format.backend
    elif kind == "prebuilt":
        backend = backend or plugin.backend_of(recognised.path)
    needs.check(recognised, backend, arch, device)
    if kind == "python":
        from . import python

        isolation.started()
        made = python.make(recognised.path, backend or "cpu", device)
    elif kind == "prebuilt":
        made = plugin.prebuilt(recognised.path, str(backend))
    else:
        if backend == "gpu" and arch is None:
            arch = build.gpu_arch(device)
        built = build.build(recognised, arch)
        if verbose and built.warnings:
            print(built.warnings, end="", file=sys.stderr)
        made = plugin.opened(built.library)
    with _lock:
        key = (recognised.path.name, made.key)
        if key not in _loaded:
            name = _free_name(recognised.path.name)
            plugin.register(name, made)
            _loaded[key] = Loaded(
                name, made.backend, recognised.path, kind, made.description.batch_multiple,
                bool(made.description.host_memory),
            )  # fmt: skip
        return _loaded[key]._replace(path=recognised.path)


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
