"""Finds NVIDIA's profiler and sanitizer, and runs programs within a time limit."""

import contextlib
import glob
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Mapping, Optional, Sequence

from ..errors import DeviceError

COUNTERS_FORBIDDEN = (
    "the driver does not let this user read GPU counters (ERR_NVGPUCTRPERM): run as root, or have an administrator put "
    "'options nvidia NVreg_RestrictProfilingToAdminUsers=0' into /etc/modprobe.d/nvidia.conf and restart"
)
_PACKAGES = {
    "ncu": "nsight-compute, or alone from developer.nvidia.com/nsight-compute",
    "compute-sanitizer": "cuda-sanitizer",
}


def find_tool(name: str) -> str:
    places = glob.glob(f"/usr/local/cuda*/bin/{name}") + glob.glob(f"/opt/nvidia/nsight-compute/*/{name}")
    usable = (place for place in sorted(places, reverse=True) if os.access(place, os.X_OK))
    found = shutil.which(name) or next(usable, None)
    if found is None:
        package = _PACKAGES[name]
        raise DeviceError(
            f"{name} is not installed: it comes with the CUDA toolkit, as NVIDIA's package {package}; put {name} on "
            "the PATH"
        )
    return found


def run(program: Sequence[str], timeout: float, **environment: str) -> subprocess.CompletedProcess:
    path = os.pathsep.join(part for part in sys.path if part)
    known = {**os.environ, "PYTHONPATH": path, **environment}
    return subprocess.run(program, capture_output=True, text=True, timeout=timeout, env=known)


def last_line(done: subprocess.CompletedProcess) -> str:
    lines = done.stderr.strip().splitlines()
    return lines[-1] if lines else f"exit code {done.returncode}"


def output(
    command: Sequence[str], seconds: float, folder: Optional[Path] = None, more: Optional[Mapping[str, str]] = None
) -> str:
    """Run a program in a folder, and return its output up to its end or the time limit, at which it is stopped."""
    if seconds <= 1:
        return ""
    try:
        started = subprocess.Popen(
            list(command),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env={**os.environ, **(more or {})},
            start_new_session=True,
        )
    except OSError as error:
        return str(error)
    try:
        return started.communicate(timeout=seconds)[0]
    except subprocess.TimeoutExpired:
        _end(started)
        return started.communicate()[0]
    except BaseException:
        _end(started)
        raise


def _end(program: subprocess.Popen) -> None:
    """Kill a program and its children. Otherwise a kernel that never leaves a barrier would keep the GPU busy."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(program.pid, signal.SIGKILL)
