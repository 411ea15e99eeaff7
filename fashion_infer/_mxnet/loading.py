"""Import MXNet once: which build it is, what it needs first, and what a failed import says.

MXNet is Apache MXNet 1.9.1, under the Apache License 2.0. Its wheel is installed beside this package, or
downloaded (see `wheel`); nothing of it is copied.
"""

import importlib
import os
import re
import warnings

from ..errors import DeviceError
from ..system import installation, limits
from . import cuda_11, wheel
from .lazy_import import fast_mxnet_import
from .logs import quiet
from .mxnet_lock import once
from .numpy_names import restore
from .threads import openmp_thread_count, openmp_threads

# Debian's package of a system library that MXNet links.
_SYSTEM = {"libgomp.so.1": "libgomp1", "libquadmath.so.0": "libquadmath0", "libstdc++.so.6": "libstdc++6"}
# MXNet asks these as it loads. A notice for each partitioned graph or sparse operator helps nobody here.
_QUIET = {"MXNET_SUBGRAPH_VERBOSE": "0", "MXNET_STORAGE_FALLBACK_LOG_VERBOSE": "0"}
# MXNet would merge a fully connected layer with the tanh behind it into a node of another name, and then
# neither has a time of its own. The merge is worth nothing at these sizes.
_PLAIN_GRAPH = {"MXNET_SUBGRAPH_BACKEND": "NONE"}


@once
def load():
    """MXNet, imported once, whatever NumPy is installed.

    Returns
    -------
    module
        `mxnet`.

    Raises
    ------
    DeviceError
        When MXNet can be neither downloaded nor loaded on this machine; one sentence says what to do.
    """
    if build() is None:
        wheel.fetch()
    _check_room()
    import numpy

    restore(numpy)
    for name, value in {**_QUIET, **_PLAIN_GRAPH}.items():
        os.environ.setdefault(name, value)
    if build() == "cu112":
        cuda_11.preload()
    try:
        with warnings.catch_warnings(), quiet(), openmp_threads(), fast_mxnet_import():
            warnings.simplefilter("ignore")
            return importlib.import_module("mxnet")
    except Exception as error:
        raise DeviceError(_explain(error)) from error


def _check_room():
    """Raise DeviceError where MXNet would find too little address space: it aborts then, or crashes.

    Loading it took 490 MB, each thread 8 MB of stack and 64 MB that malloc reserves. On two cores a run had nine
    threads more than the interpreter (two for each core, six besides), and 10,000 images took 1,000 to 1,120 MB in all,
    those of the largest edition most: 1,210 are asked for.
    """
    limits.check(limits.AddressSpace(490 + 6 * 72, 2 * 72), openmp_thread_count(), "MXNet")


def build():
    """Which wheel MXNet came from, without importing it.

    Returns
    -------
    str or None
        "cpu", "cu112", or None when MXNet is not installed.
    """
    folder = wheel.locate()
    if folder is None:
        return None
    library = folder / "libmxnet.so"
    return "cu112" if library.is_file() and library.stat().st_size == _recorded_size("mxnet-cu112") else "cpu"


def _recorded_size(distribution):
    """The size of libmxnet.so in an installed wheel's own list of files; None without that wheel.

    The CPU wheel and mxnet-cu112 own the same file: being installed proves nothing, the size does.
    """
    from importlib import metadata

    try:
        files = metadata.distribution(distribution).files or ()
    except metadata.PackageNotFoundError:
        return None
    return next((file.size for file in files if str(file) == "mxnet/libmxnet.so"), None)


def _explain(error):
    """One sentence for a failed import of MXNet: what is missing, and what to do."""
    text = " ".join(str(error).split())
    missing = re.match(r"(lib[^:\s]+): cannot open shared object file", text)
    name = missing.group(1) if missing else None
    if name == "libcuda.so.1":
        return (
            "mxnet-cu112 needs an NVIDIA driver, and libcuda.so.1 was not found: install the driver, "
            "or MXNet's CPU build with `make setup MXNET=cpu`"
        )
    if name in cuda_11.LIBRARIES:
        return f"mxnet-cu112 needs CUDA 11, and {name} was not found: {installation.extra('cu112')}"
    if name in _SYSTEM:
        every = ", ".join(_SYSTEM.values())
        package = f"Debian's package {_SYSTEM[name]}; MXNet needs {every}"
        return f"MXNet needs {name}, which this system lacks: install it ({package})"
    return f"MXNet cannot be imported ({type(error).__name__}: {text}): reinstall mxnet==1.9.1"
