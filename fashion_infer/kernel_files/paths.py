"""Which names of kernels are paths of files. Imports only the standard library: the command line asks first."""

from pathlib import PurePath
from typing import List, Sequence

SUFFIXES = (".cu", ".cuh", ".c", ".cc", ".cpp", ".cxx", ".h", ".hpp", ".py", ".so")


def is_path(kernel: str) -> bool:
    """Whether a kernel's name is the path of a file: it has a suffix of such files, or a slash and is no variant's."""
    if PurePath(kernel).suffix.lower() in SUFFIXES:
        return True
    return "/" in kernel and not is_variant(kernel)


def is_variant(kernel: str) -> bool:
    """Whether a name has the form of a variant of one of the library's own kernels: "tensor-core/NAME"."""
    return kernel.startswith("tensor-core/")


def among(kernels: Sequence[str]) -> List[str]:
    """The paths among some names, each of which may be several with commas between them."""
    return [name.strip() for names in kernels for name in names.split(",") if is_path(name.strip())]
