"""Imports MXNet 1.9.1 (Apache License 2.0), a wheel that is installed or downloaded; sets its logs and threads."""

import contextlib
import importlib
import os
import re
import sys
import warnings

from ..errors import DeviceError
from ..system import installation, process
from . import wheel
from .lazy_import import fast_mxnet_import, restore_numpy_names
from .mxnet_lock import once

# System libraries that MXNet links, with the names of Debian's packages.
_SYSTEM = {"libgomp.so.1": "libgomp1", "libquadmath.so.0": "libquadmath0", "libstdc++.so.6": "libstdc++6"}
# MXNet reads these environment variables when it loads. They turn off notices about partitioned graphs and sparse
# operators.
_QUIET = {"MXNET_SUBGRAPH_VERBOSE": "0", "MXNET_STORAGE_FALLBACK_LOG_VERBOSE": "0"}
# Without this variable, MXNet would merge a fully connected layer with the tanh after it into a node with another name,
# and their times could not be measured separately. At these sizes the merge makes nothing faster.
_PLAIN_GRAPH = {"MXNET_SUBGRAPH_BACKEND": "NONE"}
_threads = None  # number of CPU threads for MXNet's operators; None for one per core
_LOG_LINE = re.compile(rb"\[\d\d:\d\d:\d\d\] \S+:\d+: ")


@once
def load():
    """Import MXNet once, with any installed NumPy, and return it; DeviceError, which says what to do, if that fails."""
    if build() is None:
        wheel.fetch()
    _check_room()
    import numpy

    restore_numpy_names(numpy)
    for name, value in {**_QUIET, **_PLAIN_GRAPH}.items():
        os.environ.setdefault(name, value)
    if build() == "cu112":
        wheel.preload_cuda_11()
    try:
        with warnings.catch_warnings(), quiet(), openmp_threads(), fast_mxnet_import():
            warnings.simplefilter("ignore")
            return importlib.import_module("mxnet")
    except Exception as error:
        raise DeviceError(_explain(error)) from error


def _check_room():
    """Raise DeviceError if there is too little address space. MXNet would then abort or crash. Loading takes 490 MB;
    a thread takes 72 MB, of which malloc reserves 64; a run has two threads per core and six more."""
    process.check_address_space(process.AddressSpace(490 + 6 * 72, 2 * 72), openmp_thread_count(), "MXNet")


def build():
    """Return MXNet's build without importing it: "cpu", "cu112", or None if it is not installed."""
    folder = wheel.locate()
    if folder is None:
        return None
    library = folder / "libmxnet.so"
    return "cu112" if library.is_file() and library.stat().st_size == _recorded_size("mxnet-cu112") else "cpu"


def _recorded_size(distribution):
    """Return the size of libmxnet.so in a wheel's list of files, which alone tells builds apart; None if missing."""
    from importlib import metadata

    try:
        files = metadata.distribution(distribution).files or ()
    except metadata.PackageNotFoundError:
        return None
    return next((file.size for file in files if str(file) == "mxnet/libmxnet.so"), None)


def _explain(error):
    text = " ".join(str(error).split())
    missing = re.match(r"(lib[^:\s]+): cannot open shared object file", text)
    name = missing.group(1) if missing else None
    if name == "libcuda.so.1":
        return (
            "mxnet-cu112 needs an NVIDIA driver, and libcuda.so.1 was not found: install the driver, "
            "or MXNet's CPU build with `make setup MXNET=cpu`"
        )
    if name in wheel.CUDA_11_LIBRARIES:
        return f"mxnet-cu112 needs CUDA 11, and {name} was not found: {installation.extra('cu112')}"
    if name in _SYSTEM:
        every = ", ".join(_SYSTEM.values())
        package = f"Debian's package {_SYSTEM[name]}; MXNet needs {every}"
        return f"MXNet needs {name}, which this system lacks: install it ({package})"
    return f"MXNet cannot be imported ({type(error).__name__}: {text}): reinstall mxnet==1.9.1"


@contextlib.contextmanager
def quiet():
    """Return a context that drops MXNet's log lines, which MXNet cannot turn off, and delays other output on stderr."""
    try:
        sys.stderr.flush()
        stderr = os.dup(2)
    except (AttributeError, OSError, ValueError):  # no stderr
        yield
        return
    with os.fdopen(os.memfd_create("mxnet-log"), "w+b") as log:
        os.dup2(log.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(stderr, 2)
            os.close(stderr)
            log.seek(0)
            for line in log:
                if not _LOG_LINE.match(line):
                    os.write(2, line)


def set_threads(threads):
    """Set the number of CPU threads for MXNet's operators, if MXNet has not been loaded yet. It must not change later:
    with more threads than oneDNN prepared a layer for, results were incorrect, or the process crashed."""
    global _threads
    if "mxnet" not in sys.modules:
        _threads = threads


def openmp_thread_count():
    return _threads or len(os.sched_getaffinity(0))


@contextlib.contextmanager
def openmp_threads():
    """Return a context for loading MXNet that sets its number of threads, and makes idle threads sleep instead of spin,
    which slows down the fused network. The variables are removed: they would affect other libraries."""
    names = ("OMP_NUM_THREADS", "OMP_WAIT_POLICY")
    before = {name: os.environ.get(name) for name in names}
    if _threads is not None or before["OMP_NUM_THREADS"] is None:
        os.environ["OMP_NUM_THREADS"] = str(openmp_thread_count())
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
