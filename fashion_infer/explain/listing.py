"""The instructions of the hot loop beside the source lines, for `--asm`."""

import itertools
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Dict, Iterator, List, Optional, Sequence, Tuple

from ..errors import DeviceError
from ..kernel_files import build, loading, neighbours
from ..kernel_files.formats import KernelFile
from ..system import compilers, programs
from . import device_call, machine_loop

_BUILD = 60  # time limit of a compilation, in seconds
_LINE = re.compile(r'//## File "(?P<file>[^"]+)", line (?P<line>\d+)')
_INSTRUCTION = re.compile(r"^\s+/\*(?P<at>[0-9a-f]{4,})\*/\s+(?P<text>.*?;)")
_LABEL = re.compile(r"^(?P<label>\.L_x_\d+):")
_JUMP = re.compile(r"BRA\S*\s.*`\((?P<label>\.L_x_\d+)\)")


def of(file: KernelFile, hot: Sequence[int] = ()) -> str:
    return of_cpu(file, hot) if file.backend == "cpu" else of_gpu(file)


def of_cpu(file: KernelFile, hot: Sequence[int] = ()) -> str:
    """Return the instructions of the hot lines (by default of all lines), each after its source line."""
    with tempfile.TemporaryDirectory(prefix="fashion-infer-") as folder:
        place = Path(folder)
        command, target = build.command_in(place, file), place / "out.s"
        programs.output(assembly_command(command, file, target), _BUILD, place, {"LC_ALL": "C"})
        text = target.read_text() if target.is_file() else ""
    lines = neighbours.text_of(file.path).splitlines()
    rows = [
        (number, instruction)
        for number, instruction in (row for one in machine_loop.functions(text, file.path) for row in one.code)
        if number and number <= len(lines) and (not hot or number in hot)
    ]
    return "\n".join([" ".join(command), *_by_line(sorted(rows, key=lambda row: row[0] or 0), lines, file.path)])


def _by_line(rows: Sequence[Tuple[Optional[int], str]], lines: Sequence[str], path: Path) -> Iterator[str]:
    """Yield each source line, and below it its instructions, which follow one another in `rows`."""
    for number, texts in itertools.groupby(rows, key=lambda row: row[0]):
        if number:
            yield f"{path.name}:{number}: {lines[number - 1].strip() if number <= len(lines) else ''}"
        yield from (f"    {text}" for _, text in texts)


def assembly_command(command: Sequence[str], file: KernelFile, target: Path) -> List[str]:
    """Return the command that writes the assembly of a kernel file, made from the command that builds its plug-in."""
    sources = [word for before, word in zip(command, command[1:]) if before in ("c", "c++")]
    kept = sources[0] if file.format.linked else sources[-1]  # the adapter includes the file if it is not linked
    dropped = {*sources, "-shared", "-lpthread"} - {kept}
    words = [word for word in command if word not in dropped and not word.startswith("-Wl,")]
    return [*words, "-g", "-S", "-o", str(target)]


def of_gpu(file: KernelFile, arch: Optional[str] = None) -> str:  # pragma: no cover (needs a GPU; tests/gpu runs it)
    """Return the instructions of the hot loop, each after its source line, below the compiler's command."""
    _, library = loading.built(file, arch=arch)
    nvcc = compilers.find_nvcc()
    beside = os.pathsep.join([os.environ.get("PATH", ""), str(Path(nvcc or "nvcc").parent)])
    cuobjdump, nvdisasm = shutil.which("cuobjdump", path=beside), shutil.which("nvdisasm", path=beside)
    if not cuobjdump or not nvdisasm:
        raise DeviceError("--asm needs cuobjdump and nvdisasm, which come with the CUDA toolkit: have them on the PATH")
    with tempfile.TemporaryDirectory(prefix="fashion-infer-") as folder:
        command = build.command_in(Path(folder), file, arch or build.gpu_arch(0))
        subprocess.run([cuobjdump, "-xelf", "all", str(library)], cwd=folder, capture_output=True, timeout=60)
        texts = [
            device_call.ran([nvdisasm, "-g", "-c", str(cubin)], 60) for cubin in sorted(Path(folder).glob("*.cubin"))
        ]
    return " ".join(command) + "\n" + beside_source("\n".join(texts), file.path)


def beside_source(disassembly: str, path: Path) -> str:
    """Return the loop with the largest share of multiply-adds in the output of `nvdisasm -g -c`, beside its lines."""
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
    return "\n".join(_by_line(rows[start:end], lines, path))
