"""Measures a GPU kernel in a process of its own (`device_call`): by ncu, by CUPTI, and by what ptxas reports."""

import glob
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence

from ..errors import DeviceError
from ..graph.layers import ConvolutionShape
from ..kernel_files import build, loading
from ..kernel_files.formats import KernelFile
from ..system import installation, programs
from . import device_call

LAUNCHES = 12  # number of kernels of a call that ncu profiles


def measure(  # pragma: no cover (needs a GPU; tests/gpu runs it)
    file: KernelFile,
    shape: ConvolutionShape,
    seconds: float,
    profiler: bool = True,
    arch: Optional[str] = None,
    say: Callable[[str], None] = lambda line: None,
) -> Dict[str, Any]:
    """Measure calls of a kernel on one layer, without a profiler and, with `profiler`, under ncu, within `seconds`.

    The result can be stored as JSON; `slow_gpu.findings` explains it on any machine. `say` gets a line about each
    missing tool or permission. DeviceError when the file does not build.
    """
    end = time.monotonic() + seconds
    _, library = loading.built(file, arch=arch)
    raw: Dict[str, Any] = {"layer": list(shape), "compiler": usage(file, arch)}
    said = device_call.ran(device_call.command(library, shape, 4, "trace"), end - time.monotonic())
    raw["call"] = _last_json(said)
    if raw["call"].get("no_cupti"):
        say(f"CUPTI does not record here ({raw['call']['no_cupti']}): {installation.extra('profile')}")
    if profiler:
        try:
            raw["ncu"] = _profiled(device_call.command(library, shape, 1), end)
        except DeviceError as error:
            say(str(error))
    return raw


def _last_json(said: str) -> Dict[str, Any]:
    for line in reversed(said.splitlines()):
        if line.startswith('{"seconds"'):
            try:
                return dict(json.loads(line))
            except ValueError:
                break
    return {"seconds": [], "records": [], "failed": said[-2000:]}


def _profiled(call: Sequence[str], end: float) -> Dict[str, Any]:  # pragma: no cover (needs a GPU; tests/gpu runs it)
    """Return ncu's tables of a call; DeviceError without ncu, its Python module, or permission to read counters."""
    ncu = programs.find_tool("ncu")
    with tempfile.TemporaryDirectory(prefix="fashion-infer-") as folder:
        report = Path(folder) / "report.ncu-rep"
        command = [ncu, "--set", "full", "--import-source", "yes", "--clock-control", "none"]
        command += ["--target-processes", "all", "--launch-count", str(LAUNCHES), "-f", "-o", str(report), *call]
        said = device_call.ran(command, end - time.monotonic())
        if "ERR_NVGPUCTRPERM" in said:
            raise DeviceError(programs.COUNTERS_FORBIDDEN)
        if not report.is_file():
            lines = [line for line in said.splitlines() if "==ERROR==" in line] or ["it did not end in time"]
            raise DeviceError(f"ncu profiled no kernel: {lines[0].strip()}")
        module = _module(ncu)
        script = str(Path(__file__).with_name("ncu_tables.py"))
        why = "no Python here"
        for python in [sys.executable, *filter(None, map(shutil.which, ("python3", "python3.12", "python3.11")))]:
            done = subprocess.run([python, script, str(report), module], capture_output=True, text=True, timeout=120)
            if done.returncode == 0 and done.stdout:
                return dict(json.loads(done.stdout))
            why = (done.stderr.strip().splitlines() or [why])[-1]
    raise DeviceError(f"ncu's Python module ncu_report cannot be used ({why})")


def _module(ncu: str) -> str:
    """Return the folder of ncu's Python module."""
    above = [Path(ncu).resolve().parent, *Path(ncu).resolve().parents]
    places = [folder / "extras" / "python" for folder in above]
    for pattern in ("/opt/nvidia/nsight-compute/*", "/usr/local/cuda*/nsight-compute*", "/usr/lib/nsight-compute*"):
        places += [Path(place) / "extras" / "python" for place in sorted(glob.glob(pattern), reverse=True)]
    # The ncu on the PATH may be a wrapper script in a toolkit's bin/, outside of the installation with the module.
    return str(next((place for place in places if (place / "ncu_report.py").is_file()), places[0]))


_ENTRY = re.compile(r"Compiling entry function '(?P<name>[^']+)'")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(
    r"Used (\d+) registers(?:, used \d+ barriers)?(?:, \d+ bytes cumulative stack size)?(?:, (\d+) bytes smem)?"
)


def usage(
    file: KernelFile, arch: Optional[str] = None
) -> List[Dict[str, Any]]:  # pragma: no cover (needs a GPU; tests/gpu runs it)
    """Return registers, spills and shared memory of each kernel of a file, from `nvcc -Xptxas -v`."""
    with tempfile.TemporaryDirectory(prefix="fashion-infer-") as folder:
        command = build.command_in(Path(folder), file, arch or build.gpu_arch(0))
        said = device_call.ran([*command, "-Xptxas=-v", "-o", f"{folder}/plugin.so"], 120)
    return used(said)


def used(said: str) -> List[Dict[str, Any]]:
    """Parse the kernels in the output of `ptxas -v`."""
    kernels: List[Dict[str, Any]] = []
    for line in said.splitlines():
        entry, stack, registers = _ENTRY.search(line), _STACK.search(line), _USED.search(line)
        if entry:
            kernels.append({"kernel": entry.group("name"), "registers": 0, "spills": 0, "stack": 0, "shared": 0})
        elif stack and kernels:
            kernels[-1].update(stack=int(stack.group(1)), spills=int(stack.group(2)) + int(stack.group(3)))
        elif registers and kernels:
            kernels[-1].update(registers=int(registers.group(1)), shared=int(registers.group(2) or 0))
    return [kernel for kernel in kernels if "fops_adapter" not in kernel["kernel"]]
