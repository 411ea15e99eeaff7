"""Where the files that are not Python lie, in a checkout and in an installed wheel alike.

In a checkout (and an editable install) they are the top-level folders models/ and data/; a wheel carries them
inside the package, as fashion_infer/_data/models and fashion_infer/_data/data (setup.cfg maps them there).
The operator library is fashion_infer/lib/libfashion_ops.so in both.

Not by importlib.resources: it promises streams, or copies that vanish again, of files in a package. Compilers (-I), the
dynamic loader and HDF5 want paths that stay, a checkout has the folders outside the package, and its `files` begins
with Python 3.9.
"""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent
_IN_CHECKOUT = {"submission": "custom_ops/submission", "include": "custom_ops/include"}  # the others lie on top


def resource_dir(name):
    """The folder of shipped files called `name`.

    Parameters
    ----------
    name : str
        "models" (the shipped weights), "data" (the built-in dataset), "submission" (headers and adapters for kernel
        files of users) or "include" (the operator library's C API).

    Returns
    -------
    pathlib.Path
        An absolute path. A damaged installation may lack the folder: opening a file in it then fails.
    """
    installed = _PACKAGE / "_data" / name
    return installed if installed.is_dir() else _PACKAGE.parent / _IN_CHECKOUT.get(name, name)


def library_path():
    """Where the operator library belongs, whether or not it has been built.

    Returns
    -------
    pathlib.Path
        An absolute path, as `mxnet.library.load` wants it.
    """
    return _PACKAGE / "lib" / "libfashion_ops.so"
