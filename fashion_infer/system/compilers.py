"""The compilers that the operator library and kernel files are built with, and the devices that CUDA offers.

Standard library of Python 3.6 alone: scripts/make_env.py and setup.py run this file by its path, before the package can
be imported.
"""

import ctypes
import os
import shlex
import shutil
import sys
import sysconfig
from pathlib import Path
from typing import List, Optional, Sequence

# What to install where there is no C++ compiler.
CXX_PACKAGES = "Debian, Ubuntu: apt install build-essential; Fedora: dnf install gcc-c++"


def find_nvcc(sites: Optional[Sequence[str]] = None) -> Optional[str]:
    """The CUDA compiler: named in CUDACXX, on PATH, in the wheels of extra `gpu`, or in its usual place.

    Parameters
    ----------
    sites
        Folders that hold such wheels; None for those of this Python.
    """
    if sites is None:
        # In an isolated build sys.path is the build's own; ask the environment that is installed into as well.
        sites = [*sys.path, sysconfig.get_path("purelib")]
    wheels = [str(nvcc) for site in sites for nvcc in Path(site).glob("nvidia/cu*/bin/nvcc")]
    places = [os.environ.get("CUDACXX"), "nvcc", *wheels, "/usr/local/cuda/bin/nvcc"]
    return next(filter(None, (shutil.which(place) for place in places if place)), None)


def has_driver() -> bool:
    """Whether this machine has an NVIDIA driver."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def count_cuda_devices() -> int:
    """The CUDA devices that the driver offers to this process; 0 without a driver."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int()
    return count.value if driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 else 0


def find_cxx() -> Optional[str]:
    """The C++ compiler: named in CXX, else c++. Of several words, as in "ccache g++", the last program."""
    command = cxx_command()
    return [word for word in command if not word.startswith("-")][-1] if command else None


def cxx_command() -> Optional[List[str]]:
    """The words that call the C++ compiler, programs by their paths: CXX may be "ccache g++ -m64".

    None where one of the programs is not there.
    """
    words = shlex.split(os.environ.get("CXX") or "") or ["c++"]
    found = [word if word.startswith("-") else shutil.which(word) for word in words]
    return None if None in found or words[0].startswith("-") else [str(word) for word in found]


def cuda_folders(nvcc: str) -> List[Path]:
    """Where headers and libraries of CUDA may lie: the compiler's own tree, and the wheels beside it."""
    own = Path(nvcc).resolve().parent.parent
    wheels = [folder for site in sys.path for folder in sorted(Path(site).glob("nvidia/*")) if folder.is_dir()]
    return [folder for folder in [own, Path("/usr/local/cuda"), *wheels] if folder.is_dir()]
