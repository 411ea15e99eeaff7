"""The only module that imports mxnet: NumPy's old names, threads, logs, CUDA 11 libraries, import errors."""

import contextlib
import ctypes
import functools
import importlib
import importlib.util
import os
import re
import sys
import warnings
from pathlib import Path

from ..errors import DeviceError
from .lazy_import import fast_mxnet_import
from .numpy_names import restore

# What mxnet-cu112 links, each from the pip wheel nvidia-*-cu11 that carries it; in an order in which each
# finds the libraries that it needs itself already loaded.
_CUDA_11 = (
    "libcudart.so.11.0",
    "libnvrtc.so.11.2",
    "libnvToolsExt.so.1",
    "libcublasLt.so.11",
    "libcublas.so.11",
    "libcufft.so.10",
    "libcurand.so.10",
    "libcusolver.so.11",
    "libcudnn.so.8",
    "libnccl.so.2",
)
_SYSTEM = {"libgomp.so.1": "libgomp1", "libquadmath.so.0": "libquadmath0", "libstdc++.so.6": "libstdc++6"}

# MXNet asks these as it loads. A notice for each partitioned graph or sparse operator helps nobody here.
_QUIET = {"MXNET_SUBGRAPH_VERBOSE": "0", "MXNET_STORAGE_FALLBACK_LOG_VERBOSE": "0"}
# MXNet would merge a fully connected layer with the tanh behind it into a node of another name, and then
# neither has a time of its own. The merge is worth nothing at these sizes.
_PLAIN_GRAPH = {"MXNET_SUBGRAPH_BACKEND": "NONE"}
_LOG_LINE = re.compile(rb"\[\d\d:\d\d:\d\d\] \S+:\d+: ")


@functools.lru_cache(maxsize=None)
def load():
    """MXNet, imported once, whatever NumPy is installed.

    Returns
    -------
    module
        `mxnet`.

    Raises
    ------
    DeviceError
        When MXNet is missing, or cannot be loaded on this machine; one sentence says what to do.
    """
    if build() is None:
        raise DeviceError("MXNet is not installed: pip install mxnet==1.9.1")
    import numpy

    restore(numpy)
    for name, value in {**_QUIET, **_PLAIN_GRAPH}.items():
        os.environ.setdefault(name, value)
    if build() == "cu112":
        _preload_cuda_11()
    try:
        with warnings.catch_warnings(), quiet(), _openmp_threads(), fast_mxnet_import():
            warnings.simplefilter("ignore")
            return importlib.import_module("mxnet")
    except Exception as error:
        raise DeviceError(_explain(error)) from error


def build():
    """Which wheel MXNet came from, without importing it.

    Returns
    -------
    str or None
        "cpu", "cu112", or None when MXNet is not installed.
    """
    spec = importlib.util.find_spec("mxnet")
    if spec is None or spec.origin is None:  # an empty folder left behind has no origin
        return None
    library = Path(spec.origin).parent / "libmxnet.so"
    return "cu112" if library.is_file() and library.stat().st_size == _recorded_size("mxnet-cu112") else "cpu"


def set_threads(threads):
    """Let MXNet's operators use this many CPU threads, if it has not been loaded yet.

    Once loaded it keeps its number: oneDNN sizes its scratch memory by the number of threads when it prepares a layer,
    and running that layer on more of them gave wrong results, or a crash (seen with 2, then 3 and 4).

    Parameters
    ----------
    threads : int
        At least 1.
    """
    global _threads
    if "mxnet" not in sys.modules:
        _threads = threads


@contextlib.contextmanager
def quiet():
    """A context that keeps MXNet's log lines off stderr, for short calls; other output follows when it ends.

    MXNet 1.9.1 writes its log from C++ and has no switch for it.
    """
    try:
        sys.stderr.flush()
        stderr = os.dup(2)
    except (AttributeError, OSError, ValueError):  # there is no stderr
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


_threads = None


@contextlib.contextmanager
def _openmp_threads():
    """Tell MXNet how many threads to use while it loads, the one time that it asks.

    Left alone it takes half of the cores. The variable goes again: it would bind whatever is loaded later.
    """
    before = os.environ.get("OMP_NUM_THREADS")
    if _threads is not None or before is None:
        os.environ["OMP_NUM_THREADS"] = str(_threads or len(os.sched_getaffinity(0)))
    try:
        yield
    finally:
        if before is None:
            del os.environ["OMP_NUM_THREADS"]
        else:
            os.environ["OMP_NUM_THREADS"] = before


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


def _preload_cuda_11():
    """Load the CUDA 11 libraries from their pip wheels: no toolkit and no LD_LIBRARY_PATH is needed."""
    spec = importlib.util.find_spec("nvidia")
    folders = list(spec.submodule_search_locations) if spec else []
    for name in _CUDA_11:
        for path in (path for folder in folders for path in Path(folder).glob(f"*/lib/{name}")):
            # One that does not load is left for MXNet's own import to name.
            with contextlib.suppress(OSError):
                ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)


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
    if name in _CUDA_11:
        return f"mxnet-cu112 needs CUDA 11, and {name} was not found: pip install 'fashion-infer[cu112]'"
    if name in _SYSTEM:
        return f"MXNet needs {name}, which this system lacks: install it (Debian's package {_SYSTEM[name]})"
    return f"MXNet cannot be imported ({type(error).__name__}: {text}): reinstall mxnet==1.9.1"
