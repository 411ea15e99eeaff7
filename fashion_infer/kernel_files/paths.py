"""Tells kernel names from file paths. Imports only the standard library, because the command line uses it early."""

from pathlib import PurePath
from typing import List, Sequence

SUFFIXES = (".cu", ".cuh", ".c", ".cc", ".cpp", ".cxx", ".h", ".hpp", ".py", ".so")


def is_path(kernel: str) -> bool:
    """Return whether a kernel's name is a file path: it has a kernel file's suffix, or a slash and is not a variant."""
    if PurePath(kernel).suffix.lower() in SUFFIXES:
        return True
    return "/" in kernel and not is_variant(kernel)


def is_variant(kernel: str) -> bool:
    """Return whether a name has the form of a variant of a library kernel: "tensor-core/NAME"."""
    return kernel.startswith("tensor-core/")


def among(kernels: Sequence[str]) -> List[str]:
    """Return the paths among names of kernels. Each name may be a comma-separated list."""
    return [name.strip() for names in kernels for name in names.split(",") if is_path(name.strip())]
