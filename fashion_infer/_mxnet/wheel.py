"""MXNet's wheel: installed next to this package, or downloaded into the user's cache when first needed.

MXNet's metadata requires NumPy below 2, although MXNet runs with any NumPy (see `lazy_import`). Python 3.13 and later
have no NumPy below 2. This package therefore does not depend on mxnet: pip would replace the installed NumPy.
"""

import contextlib
import ctypes
import importlib.util
import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Optional

from ..errors import DataError, DeviceError
from ..system import installation, paths
from ..system.files import vanishing

VERSION = "1.9.1"
REQUIREMENT = Path(__file__).with_name("requirement.txt")  # includes the wheels' SHA-256
# Libraries that mxnet-cu112 links, each from its pip wheel nvidia-*-cu11, ordered so that each library's dependencies
# are loaded before it.
CUDA_11_LIBRARIES = (
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


def locate() -> Optional[Path]:
    """Find the folder `mxnet` that this process would import, also in the user's cache; None if there is none."""
    spec = importlib.util.find_spec("mxnet")
    if spec is None:
        cached = _cached()
        if cached and (cached / "mxnet").is_dir() and str(cached) not in sys.path:
            sys.path.append(str(cached))
            spec = importlib.util.find_spec("mxnet")
    # If only an empty folder `mxnet` is left, `spec` has no origin.
    return Path(spec.origin).parent if spec and spec.origin else None


def fetch() -> None:
    cached = _cached()
    by_hand = f"install it with `{installation.pip_install(f'--no-deps mxnet=={VERSION}')}`"
    if cached is None:
        raise DeviceError(f"MXNet {VERSION} is not installed, and this user has no cache folder for it: {by_hand}")
    sys.stderr.write(f"fashion-infer: downloading MXNet {VERSION}, once, into {cached}\n")
    try:
        cached.parent.mkdir(parents=True, exist_ok=True)
        with vanishing(partial(tempfile.mkdtemp, dir=cached.parent, prefix=".mxnet.")) as temporary:
            options = ["--quiet", "--no-deps", "--require-hashes", "--target", temporary, "-r", str(REQUIREMENT)]
            done = subprocess.run([*installation.pip(), "install", *options], stderr=subprocess.PIPE, text=True)
            if done.returncode:
                reason = (done.stderr.strip().splitlines() or ["pip failed"])[-1]
                raise DeviceError(f"MXNet {VERSION} is not installed and could not be downloaded ({reason}): {by_hand}")
            os.rename(temporary, cached)
    except OSError as error:
        if not cached.is_dir():  # otherwise another process has installed it in the meantime
            raise DeviceError(f"cannot write {cached} ({error.strerror}): {by_hand}") from None
    importlib.invalidate_caches()


def _cached() -> Optional[Path]:
    try:
        return paths.needed_cache() / f"mxnet-{VERSION}"
    except DataError:
        return None


def preload_cuda_11():
    """Load the CUDA 11 libraries that are installed, without a toolkit or LD_LIBRARY_PATH."""
    spec = importlib.util.find_spec("nvidia")
    folders = list(spec.submodule_search_locations) if spec else []
    for name in CUDA_11_LIBRARIES:
        for path in (path for folder in folders for path in Path(folder).glob(f"*/lib/{name}")):
            # Ignore a failure: MXNet's own import reports it.
            with contextlib.suppress(OSError):
                ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
