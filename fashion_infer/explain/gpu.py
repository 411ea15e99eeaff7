"""Explains why a GPU kernel is wrong or slow, with compute-sanitizer, ncu, CUPTI and the compiler.

The kernel is called in a separate process (`device_call`).
"""

import concurrent.futures
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from ..errors import DeviceError
from ..kernel_files import build, loading, neighbours
from ..kernel_files.formats import KernelFile
from ..system import compilers, installation, programs, resources
from . import hardware, sanitizer
from .findings import KernelFinding, at_line, plain_name
from .hardware import Layer

_IMAGES = 1000  # default number of images in a profiled call
_TOOL = 25  # time limit of a tool in seconds: a barrier that some threads do not reach may wait forever
_REGISTERS = 1 << 16  # registers per SM, from compute capability 7.0 on; allocated in units of 8 per thread
_FEW = 2  # number of images in a call under a sanitizer
# Mistakes that a few images may not show. The sanitizers repeat these trials with the original number of images.
_MANY = ("images_from", "fixed_batch", "not_all_written")
_STORE = r"\b(?:{names})\s*(?:\[[^;]*\]|\([^;]*?\))\s*(?P<how>\+?=)(?!=)"


def wrong(  # pragma: no cover (needs a GPU; tests/gpu runs it)
    file: KernelFile, cases: Sequence[Any], seconds: float, arch: Optional[str] = None, keep: Optional[Path] = None
) -> List[KernelFinding]:
    """Find the lines that make a kernel wrong, with compute-sanitizer's four tools on a few images of each layer.

    Parameters
    ----------
    file
        A kernel file for the GPU, compiled by us.
    cases
        The incorrect trials, as `judging.calls.Tried`, or shapes (input channels, size, filters, kernel size).
    seconds
        Time limit for all tools together.
    arch
        GPU architecture to compile for; None for the architecture of the first device.
    keep
        Folder in which to keep the tools' output; None keeps nothing.

    Raises
    ------
    DeviceError
        Without compute-sanitizer, or when the file does not build.
    """
    tool = programs.find_tool("compute-sanitizer")
    _, library = loading.built(file, arch=arch)
    end = time.monotonic() + seconds
    jobs = [(case, name) for case in cases[:2] for name in sanitizer.TOOLS]
    found: List[sanitizer.Report] = []

    def one(job: Tuple[Any, str]) -> str:
        case, name = job
        layer = _layer(case, None if getattr(case, "code", "") in _MANY else _FEW)
        return _ran([*_sanitizer_command(tool, name), *_call(library, layer, 2)], min(_TOOL, end - time.monotonic()))

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for number, ((_, name), said) in enumerate(zip(jobs, pool.map(one, jobs))):
            if keep is not None:
                (keep / f"{name}-{number}.txt").write_text(said)
            found += sanitizer.reports(said, name)
    made = sanitizer.findings(found, file.path)
    codes = [getattr(case, "code", "") for case in cases]
    return made or by_verdict(file.path, codes)


def by_verdict(path: Path, codes: Sequence[str]) -> List[KernelFinding]:
    """Return findings at the line that stores the output, from the judge's verdict, if no tool found a line."""
    text = neighbours.text_of(path)
    stores = list(_stores(text))
    for code in codes:
        adding = [number for number, how in stores if how == "+="]
        if code in ("race", "unstable", "sum_not_reset", "taps_missing") and adding:
            what = "adds to the output without an atomic, and several threads add to the same output"
            remedy = "let one thread own an output, or use atomicAdd on an output of zeros"
            found = "race_on_output", what, adding[0], remedy
        elif code in ("accumulates", "carries_over", "doubled", "not_written") and adding:
            what = "adds to what the output held before the call"
            found = "stale_output", what, adding[0], "begin the sum at zero, and store it"
        elif code in ("not_all_written", "images_from", "not_written", "all_zero", "carries_over") and stores:
            what = "is not reached for every output: what lay there before stays"
            found = ("stale_output", what, stores[-1][0], "let the grid and the condition cover every output")
        else:
            continue
        name, what, line, remedy = found
        evidence = {"verdict": code, "stores": stores}
        return [at_line(path, line, name, f"{path.name}:{line} {what}", remedy, evidence)]
    return []


def _stores(text: str) -> List[Tuple[int, str]]:
    """Return the lines that store to a kernel's output with = or +=.

    The output is a pointer parameter that is not const, possibly accessed through a macro.
    """
    names = {"y4d", "out_4d"}
    for parameters in re.findall(r"__global__[^{;]*?\(([^{;]*)\)\s*\{", text):
        for parameter in parameters.split(","):
            match = re.search(r"\*\s*(?:__restrict__\s*)?(\w+)\s*$", parameter)
            if match and "const" not in parameter.split("*")[0]:
                names.add(match.group(1))
    pattern = re.compile(_STORE.format(names="|".join(sorted(names))))
    found = []
    for number, row in enumerate(text.splitlines(), 1):
        match = pattern.search(row.split("//")[0])
        if match and not row.lstrip().startswith("#"):
            found.append((number, match.group("how")))
    return found


def _sanitizer_command(tool: str, name: str) -> List[str]:
    options = ["--tool", name, "--print-limit", "50", "--target-processes", "all"]
    if name == "memcheck":
        options += ["--padding", "1024", "--report-api-errors", "all"]
    if name == "initcheck" and "initcheck-address-space" in _help(tool):
        options += ["--initcheck-address-space", "all"]  # shared memory, too
    return [tool, *options]


_helps: Dict[str, str] = {}


def _help(tool: str) -> str:
    if tool not in _helps:
        _helps[tool] = _ran([tool, "--help"], 20)
    return _helps[tool]


def _call(library: Optional[Path], layer: Layer, calls: int, *more: str) -> List[str]:
    return [
        sys.executable,
        "-m",
        "fashion_infer.explain.device_call",
        str(library),
        *map(str, layer),
        str(calls),
        *more,
    ]


def _ran(command: Sequence[str], seconds: float) -> str:
    """Return the output of a program that imports this package from the same folder as this process does."""
    return programs.output(command, seconds, more={"PYTHONPATH": os.pathsep.join(part for part in sys.path if part)})


def _layer(case: Any, images: Optional[int]) -> Layer:
    """Return a `Layer` from a trial, a size of 6 numbers, or a shape of 4 numbers; `images` replaces its batch."""
    if isinstance(case, Layer):
        return case
    numbers = tuple(getattr(case, "shape", case))
    if len(numbers) == 6:  # images, channels, height, width, filters, taps
        batch, channels, side, _, filters, taps = numbers
    else:
        batch, (channels, side, filters, taps) = _IMAGES, numbers
    return Layer(min(images or batch, batch), channels, side, filters, taps)


class Slow:
    """Measurements of a kernel on one layer, as JSON. `findings` can be computed from them on any machine."""

    def __init__(self, raw: Mapping[str, Any]):
        self.raw = raw

    def findings(self, path: Path, host_memory: bool = False) -> List[KernelFinding]:
        """Return the findings on the layer, largest share of the time first."""
        layer = Layer(*self.raw["layer"])
        gains = gains_of(layer)
        tables = self.raw.get("ncu") or _of_records(self.raw)
        found = hardware.findings(tables, path, layer, gains)
        kernel_ns = sum(kernel["metrics"].get("gpu__time_duration.sum", 0.0) for kernel in tables["kernels"])
        found += hardware.outside(self.raw.get("call", {}), kernel_ns, path, host_memory)
        if not self.raw.get("ncu"):
            found += of_compiler(self.raw.get("compiler", ()), gains)
        return sorted(found, key=lambda one: -(one.share or 0.0))


def measure(  # pragma: no cover (needs a GPU; tests/gpu runs it)
    file: KernelFile,
    layer: Any,
    seconds: float,
    profiler: bool = True,
    arch: Optional[str] = None,
    say: Callable[[str], None] = lambda line: None,
) -> Slow:
    """Measure calls of a kernel on one layer, without a profiler and, with `profiler`, under ncu.

    Parameters
    ----------
    file
        A kernel file for the GPU, compiled by us.
    layer
        A trial, a size of 6 numbers, or a shape of 4.
    seconds
        Time limit for both measurements together.
    profiler
        Whether to use ncu.
    arch
        GPU architecture to compile for; None for the architecture of the first device.
    say
        Function that is called with a line about a missing tool or permission, and how to get it.

    Raises
    ------
    DeviceError
        When the file does not build.
    """
    end = time.monotonic() + seconds
    _, library = loading.built(file, arch=arch)
    size = _layer(layer, None)
    raw: Dict[str, Any] = {"layer": list(size), "compiler": usage(file, arch)}
    said = _ran(_call(library, size, 4, "trace"), end - time.monotonic())
    raw["call"] = _last_json(said)
    if raw["call"].get("no_cupti"):
        say(f"CUPTI does not record here ({raw['call']['no_cupti']}): {installation.extra('profile')}")
    if profiler:
        try:
            raw["ncu"] = _profiled(_call(library, size, 1), end)
        except DeviceError as error:
            say(str(error))
    return Slow(raw)


def slow(  # pragma: no cover (needs a GPU; tests/gpu runs it)
    file: KernelFile,
    layers: Sequence[Any],
    seconds: float,
    profiler: bool = True,
    arch: Optional[str] = None,
    say: Callable[[str], None] = lambda line: None,
) -> List[KernelFinding]:
    """Return findings on a correct kernel's speed, largest share first; parameters and errors as in `measure`.

    If several layers have findings with the same code, the one with the largest share is kept.
    """
    found: Dict[str, KernelFinding] = {}
    for number, layer in enumerate(layers):
        part = seconds / len(layers)
        measured = measure(file, layer, part, profiler, arch, say if number == 0 else lambda line: None)
        for finding in measured.findings(file.path, file.format.host_memory and not file.format.phases):
            before = found.get(finding.code)
            if before is None or (finding.share or 0) > (before.share or 0):
                found[finding.code] = finding
    return sorted(found.values(), key=lambda one: -(one.share or 0.0))


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
        command = [
            ncu,
            "--set",
            "full",
            "--import-source",
            "yes",
            "--clock-control",
            "none",
            "--target-processes",
            "all",
            "--launch-count",
            "12",
            "-f",
            "-o",
            str(report),
            *call,
        ]
        said = _ran(command, end - time.monotonic())
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


def _of_records(raw: Mapping[str, Any]) -> Dict[str, Any]:
    """Convert the launches that CUPTI recorded to tables with ncu's names of the metrics."""
    kernels = []
    for record in raw.get("call", {}).get("records", []):
        if record["kind"] == "kernel":
            grid, block = ([side or 1 for side in record[name]] for name in ("grid", "block"))
            metrics = {
                "gpu__time_duration.sum": record["ns"],
                "launch__grid_size": grid[0] * grid[1] * grid[2],
                "launch__block_size": block[0] * block[1] * block[2],
            }
            if record.get("registers_per_thread"):
                metrics["launch__registers_per_thread"] = record["registers_per_thread"]
            kernels.append({"name": record["name"], "metrics": metrics, "rules": [], "instructions": []})
    return {"kernels": kernels}


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
        said = _ran([*command, "-Xptxas=-v", "-o", f"{folder}/plugin.so"], 120)
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


def of_compiler(kernels: Sequence[Mapping[str, Any]], gains: Mapping[str, float]) -> List[KernelFinding]:
    """Return findings on the resources of kernels, as `used` returns them; `gains` are those of the ladder's steps."""
    found = []
    for kernel in kernels:
        evidence = dict(kernel)
        name = plain_name(kernel["kernel"])
        if kernel["spills"] or kernel["stack"] > 64:
            code, share = "spills", 0.5
            what = f"{name}: {kernel['spills']} bytes of spill stores and loads, {kernel['stack']} bytes of stack"
        elif kernel["registers"] > 128:
            code, share = "too_many_registers", 0.3
            warps = _REGISTERS // (hardware.WARP * -(-kernel["registers"] // 8 * 8))
            evidence["warps"] = warps
            what = f"{name}: {kernel['registers']} registers per thread, so that at most {warps} warps fit an SM"
        else:
            continue
        remedy, step = hardware.REMEDIES[code]
        found.append(
            KernelFinding(code, what, None, None, None, share, remedy, step or None, gains.get(step), evidence)
        )
    return found


def gains_of(layer: Layer) -> Dict[str, float]:
    """Return the speed of each step of the ladder relative to the previous step.

    The times come from the layer in docs/kernels.json that is most similar to the given layer.
    """
    page = resources.resource_dir("docs") / "kernels.json"
    try:
        cases = json.loads(page.read_text())["cases"]
    except (OSError, ValueError, KeyError):
        return {}

    def away(case: Mapping[str, Any]) -> float:
        shape = case["shape"]
        ours = (layer.channels, layer.side, layer.filters, layer.taps)
        return sum(abs(mine - shape[name]) / max(mine, shape[name]) for mine, name in zip(ours, "CHMK"))

    rows = [row for row in min(cases, key=away)["rows"] if row["step"] and row["median_ms"]]
    rows.sort(key=lambda row: row["step"])
    return {row["name"]: before["median_ms"] / row["median_ms"] for before, row in zip(rows, rows[1:])}


_LINE = re.compile(r'//## File "(?P<file>[^"]+)", line (?P<line>\d+)')
_INSTRUCTION = re.compile(r"^\s+/\*(?P<at>[0-9a-f]{4,})\*/\s+(?P<text>.*?;)")
_LABEL = re.compile(r"^(?P<label>\.L_x_\d+):")
_JUMP = re.compile(r"BRA\S*\s.*`\((?P<label>\.L_x_\d+)\)")


def listing(file: KernelFile, arch: Optional[str] = None) -> str:  # pragma: no cover (needs a GPU; tests/gpu runs it)
    """Return the instructions of the hot loop, each after its source line, below the compiler's command.

    Raises
    ------
    DeviceError
        Without nvdisasm and cuobjdump, which come with the CUDA toolkit.
    """
    _, library = loading.built(file, arch=arch)
    nvcc = compilers.find_nvcc()
    beside = os.pathsep.join([os.environ.get("PATH", ""), str(Path(nvcc or "nvcc").parent)])
    cuobjdump, nvdisasm = shutil.which("cuobjdump", path=beside), shutil.which("nvdisasm", path=beside)
    if not cuobjdump or not nvdisasm:
        raise DeviceError("--asm needs cuobjdump and nvdisasm, which come with the CUDA toolkit: have them on the PATH")
    with tempfile.TemporaryDirectory(prefix="fashion-infer-") as folder:
        command = build.command_in(Path(folder), file, arch or build.gpu_arch(0))
        subprocess.run([cuobjdump, "-xelf", "all", str(library)], cwd=folder, capture_output=True, timeout=60)
        texts = [_ran([nvdisasm, "-g", "-c", str(cubin)], 60) for cubin in sorted(Path(folder).glob("*.cubin"))]
    return " ".join(command) + "\n" + beside_source("\n".join(texts), file.path)


def beside_source(disassembly: str, path: Path) -> str:
    """Return the loop with the largest share of multiply-adds in the output of `nvdisasm -g -c`.

    The instructions of each source line follow that line.
    """
    lines = neighbours.text_of(path).splitlines()
    rows: List[Tuple[Optional[int], str]] = []
    labels: Dict[str, int] = {}
    loops: List[Tuple[int, int]] = []
    line: Optional[int] = None
    for row in disassembly.splitlines():
        place, label, instruction = _LINE.search(row), _LABEL.match(row), _INSTRUCTION.match(row)
        if place:
            line = int(place.group("line")) if Path(place.group("file")).name == path.name else line
        elif label:
            labels[label.group("label")] = len(rows)
        elif instruction:
            rows.append((line, instruction.group("text")))
            jump = _JUMP.search(row)
            if jump and labels.get(jump.group("label"), len(rows)) < len(rows) - 1:
                loops.append((labels[jump.group("label")], len(rows)))

    def density(loop: Tuple[int, int]) -> Tuple[float, int]:
        products = sum("FFMA" in text or "MMA" in text for _, text in rows[slice(*loop)])
        return products / (loop[1] - loop[0]), products

    start, end = max(loops, key=density) if loops else (0, len(rows))
    shown: List[str] = []
    before: Optional[int] = None
    for number, text in rows[start:end]:
        if number != before and number:
            shown.append(f"{path.name}:{number}: {lines[number - 1].strip() if number <= len(lines) else ''}")
        before = number
        shown.append(f"    {text}")
    return "\n".join(shown)
