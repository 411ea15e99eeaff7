"""Paths of non-Python files, in a checkout and in an installed wheel.

In a checkout (and an editable install) they are in the top-level folders models/ and data/. A wheel has them inside the
package, as fashion_infer/_data/models and fashion_infer/_data/data (setup.cfg maps them there). The operator library is
fashion_infer/lib/libfashion_ops.so in both.

This module does not use importlib.resources, which provides only streams or temporary copies of files in a package.
Compilers (-I), the dynamic loader and HDF5 need permanent paths. Moreover, a checkout has the folders outside the
package, and `importlib.resources.files` requires Python 3.9.
"""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent
_IN_CHECKOUT = {
    "submission": "custom_ops/submission",
    "include": "custom_ops/include",
}  # other names are folders at the top level


def resource_dir(name):
    """Return the folder of a kind of shipped files.

    Parameters
    ----------
    name : str
        "models" (the shipped weights), "data" (the built-in dataset), "submission" (headers and adapters for users'
        kernel files) or "include" (the operator library's C API).

    Returns
    -------
    pathlib.Path
        An absolute path. A damaged installation may lack the folder; opening a file in it then fails.
    """
    installed = _PACKAGE / "_data" / name
    return installed if installed.is_dir() else _PACKAGE.parent / _IN_CHECKOUT.get(name, name)


def library_path():
    """Return the path of the operator library, whether or not it has been built.

    Returns
    -------
    pathlib.Path
        An absolute path, as `mxnet.library.load` requires.
    """
    return _PACKAGE / "lib" / "libfashion_ops.so"
