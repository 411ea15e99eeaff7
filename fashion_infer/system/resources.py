"""Paths of non-Python files. A checkout has models/ and data/ as top-level folders, a wheel in fashion_infer/_data/.

Compilers (-I), the dynamic loader and HDF5 need permanent paths, which importlib.resources does not provide.
"""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent
_IN_CHECKOUT = {
    "submission": "custom_ops/submission",
    "include": "custom_ops/include",
}  # other names are folders at the top level


def resource_dir(name):
    """Return the absolute path of a folder of shipped files: "models", "data", "submission" or "include".

    "submission" has headers and adapters for users' kernel files, "include" the library's C API. In a damaged
    installation, the folder may be missing.
    """
    installed = _PACKAGE / "_data" / name
    return installed if installed.is_dir() else _PACKAGE.parent / _IN_CHECKOUT.get(name, name)


def library_path():
    """Return the absolute path of the operator library, whether or not it has been built."""
    return _PACKAGE / "lib" / "libfashion_ops.so"
