"""The CUDA 11 libraries of mxnet-cu112, loaded from their pip wheels: no toolkit and no LD_LIBRARY_PATH is needed."""

import contextlib
import ctypes
import importlib.util
from pathlib import Path

# What mxnet-cu112 links, each from the pip wheel nvidia-*-cu11 that carries it; in an order in which each
# finds the libraries that it needs itself already loaded.
LIBRARIES = (
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


def preload():
    """Load those that are installed."""
    spec = importlib.util.find_spec("nvidia")
    folders = list(spec.submodule_search_locations) if spec else []
    for name in LIBRARIES:
        for path in (path for folder in folders for path in Path(folder).glob(f"*/lib/{name}")):
            # One that does not load is left for MXNet's own import to name.
            with contextlib.suppress(OSError):
                ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
