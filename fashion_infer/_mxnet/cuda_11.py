"""Loads the CUDA 11 libraries of mxnet-cu112 from pip wheels, without a toolkit or LD_LIBRARY_PATH."""

import contextlib
import ctypes
import importlib.util
from pathlib import Path

# Libraries that mxnet-cu112 links, each from its pip wheel nvidia-*-cu11, ordered so that each library's dependencies
# are loaded before it.
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
    """Load the libraries that are installed."""
    spec = importlib.util.find_spec("nvidia")
    folders = list(spec.submodule_search_locations) if spec else []
    for name in LIBRARIES:
        for path in (path for folder in folders for path in Path(folder).glob(f"*/lib/{name}")):
            # Ignore a failure: MXNet's own import reports it.
            with contextlib.suppress(OSError):
                ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
