"""The compilers for the operator library and kernel files, and the number of CUDA devices.

Only the standard library of Python 3.6 is used: scripts/make_env.py and setup.py run this file by its path.
"""

import ctypes
import os
import shlex
import shutil
import sys
import sysconfig
from pathlib import Path
from typing import List, Optional, Sequence

# Packages to install if there is no C++ compiler.
CXX_PACKAGES = "Debian, Ubuntu: apt install build-essential; Fedora: dnf install gcc-c++"


def find_nvcc(sites: Optional[Sequence[str]] = None) -> Optional[str]:
    """Find the CUDA compiler: in CUDACXX, on PATH, in the wheels of extra `gpu`, or in its usual place."""
    if sites is None:
        # In an isolated build, sys.path has only the folders of the build. Also search the environment of this Python.
        sites = [*sys.path, sysconfig.get_path("purelib")]
    wheels = [str(nvcc) for site in sites for nvcc in Path(site).glob("nvidia/cu*/bin/nvcc")]
    places = [os.environ.get("CUDACXX"), "nvcc", *wheels, "/usr/local/cuda/bin/nvcc"]
    return next(filter(None, (shutil.which(place) for place in places if place)), None)


def has_driver() -> bool:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def count_cuda_devices() -> int:
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int()
    return count.value if driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 else 0


def find_cxx() -> Optional[str]:
    command = cxx_command()
    return [word for word in command if not word.startswith("-")][-1] if command else None


def cxx_command() -> Optional[List[str]]:
    """Return the C++ compiler's command as words; CXX may be "ccache g++ -m64". None if a program is missing."""
    words = shlex.split(os.environ.get("CXX") or "") or ["c++"]
    found = [word if word.startswith("-") else shutil.which(word) for word in words]
    return None if None in found or words[0].startswith("-") else [str(word) for word in found]


def cuda_folders(nvcc: str) -> List[Path]:
    """Return folders that may have headers and libraries of CUDA: the compiler's tree, and the wheels next to it."""
    own = Path(nvcc).resolve().parent.parent
    wheels = [folder for site in sys.path for folder in sorted(Path(site).glob("nvidia/*")) if folder.is_dir()]
    return [folder for folder in [own, Path("/usr/local/cuda"), *wheels] if folder.is_dir()]
