"""Finds where a CPU kernel spends its time: samples of its threads, by source line and by machine-code loop.

The file is compiled together with custom_ops/submission/sampled_call.cpp, which calls it and takes the samples.
binutils' addr2line and objdump find the source line and the instructions at each sampled address.
"""

import math
import os
import re
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..errors import DeviceError
from ..graph.layers import ConvolutionShape
from ..kernel_files import build
from ..kernel_files.formats import KernelFile
from ..system import installation, programs
from .machine_loop import MachineLoop

_WRAPPED = ("malloc", "posix_memalign", "aligned_alloc", "GOMP_parallel", "GOMP_loop_dynamic_next",
            "GOMP_loop_nonmonotonic_dynamic_next", "GOMP_loop_ull_dynamic_next",
            "GOMP_loop_ull_nonmonotonic_dynamic_next")  # fmt: skip
_FLAGS = ["-g", "-O3", "-fopenmp", *(f"-Wl,--wrap={name}" for name in _WRAPPED),
          "-ldl", "-lpthread", "-lstdc++", "-lm"]  # fmt: skip
_BUILD = 60  # time limit of a compilation, in seconds
_IMAGES, _CALLS = 64, 500  # number of images per call, and largest number of calls
_MANY = 10_000  # images of a run
_LONGEST, _LARGEST = 4.0, 1 << 28  # time of a call with more images, in seconds, and its floats, at most
_TOOL = 20  # time limit of addr2line and of objdump, in seconds
_WORKED = 0.05  # fraction of an even share of the samples; a thread with fewer samples counts as not working
_BRANCH = re.compile(r"(?:j\w+|b\.\w+|cbn?z|tbn?z)\b.*?\b(?P<to>[0-9a-f]+) <")
_CALL = re.compile(r"(?:callq?|bl)\s+[0-9a-f]+ <(?!__wrap_)(?P<name>.+)>$")
_INDIRECT = re.compile(r"callq?\s+\*|blr\s")
_CALLER = 0.05  # least fraction of the samples in a loop that calls functions through pointers
_POINTED = "a function through a pointer"


class CpuRun(NamedTuple):
    """Measurements of a kernel's calls on the CPU."""

    seconds: float = 0.0  # duration of the fastest call
    processor: float = 0.0  # least processor time of all threads in a call, in seconds
    regions: float = 0.0  # number of parallel regions per call
    peak: float = 0.0  # this machine's operations per second in multiply-adds on registers; 0 if not measured
    samples: int = 0  # number of samples
    threads: int = 0  # number of threads that did a part of the work
    busiest: float = 1.0  # fraction of the working samples in the thread that has most
    waiting: float = 0.0  # fraction of the samples in the code of GNU's OpenMP library
    waits: Tuple[Tuple[int, float], ...] = ()  # (line that calls OpenMP, fraction of the samples), largest first
    loop: Tuple[str, ...] = ()  # instructions of the innermost loop that takes most of the time
    loop_at: Tuple[Optional[int], ...] = ()  # the line of the file of each of them
    loop_share: float = 0.0  # fraction of the working samples in that loop
    loop_lines: Tuple[int, ...] = ()  # lines of the file with samples of that loop, most samples first
    calls: Tuple[Tuple[str, float, Optional[int]], ...] = ()  # calls in the loop: (function, its fraction, line)
    beside: Tuple[str, ...] = ()  # instructions of the hottest other loop that multiplies nothing
    beside_share: float = 0.0  # fraction of the working samples in it
    beside_line: Optional[int] = None  # its line of the file with most samples
    libraries: Tuple[Tuple[str, float, Optional[int]], ...] = ()  # (library function, fraction, calling line)
    parts: float = 0.0  # number of parts of dynamically scheduled loops per call
    asleep: float = 0.0  # fraction of the time in which the calling thread neither worked nor waited for a processor
    shape: ConvolutionShape = ConvolutionShape(_IMAGES, 0, 0, 0, 0, 0)  # the call's
    # Processor seconds per image of the same convolution in other forms ("sum", "row", "tile"): on one thread, on all.
    remedies: Mapping[str, Tuple[float, float]] = {}

    @property
    def scaling(self) -> float:
        """How many times faster all processors are than one, in the form "row"."""
        cores = float(len(os.sched_getaffinity(0)))
        alone, together = self.remedies.get("row", (1.0, 1.0))
        return max(1.0, min(cores, cores * alone / together))

    def line_of(self, texts: Sequence[str]) -> Optional[int]:
        """Return the line of the first of some instructions of the loop; None if it is unknown."""
        return next((line for line, text in zip(self.loop_at, self.loop) if line and text in texts), None)

    def after(self, form: str) -> Optional[float]:
        """Return the fraction of the working time that the same convolution takes in another form; None if unknown."""
        if form == "rows":  # rows of several filters: between one row and a tile
            row, tile = self.after("row"), self.after("tile")
            return math.sqrt(row * tile) if row and tile else None
        busy = self.processor * (1 - self.waiting) / self.shape.B
        return self.remedies[form][self.threads > 1] / busy if form in self.remedies and busy > 0 else None

    @property
    def figures(self) -> Dict[str, Any]:
        """Return the kernel's figures next to the machine's limits; {} if nothing was measured."""
        if not self.seconds:
            return {}
        one = self.shape._replace(B=1)
        return {
            "images": self.shape.B,
            "gflop_s": 1e-9 * self.shape.operations / self.seconds,
            "peak_gflop_s": 1e-9 * self.peak,
            "threads": self.threads,
            "processors": len(os.sched_getaffinity(0)),
            "machine_processors": os.cpu_count() or 1,
            "image_bytes": 4 * (one.C * one.H * one.W + one.outputs),
            "weight_bytes": 4 * one.M * one.C * one.K**2,
            "caches": caches(),
        }


def caches() -> Dict[str, int]:
    """Return the sizes of the first processor's data caches in bytes, such as {"L1": 32768}; {} if unknown."""
    found: Dict[str, int] = {}
    for place in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            kind, level, size = ((place / name).read_text().strip() for name in ("type", "level", "size"))
        except OSError:
            continue
        match = re.match(r"(\d+)([KM]?)$", size)
        if kind != "Instruction" and match:
            found[f"L{level}"] = int(match[1]) << {"": 0, "K": 10, "M": 20}[match[2]]
    return found


class SampledProgram:
    """A kernel file built with the program that samples it; a context manager. DeviceError if it cannot be built."""

    def __init__(self, file: KernelFile, *flags: str):
        self._path = file.path
        self._folder = tempfile.TemporaryDirectory(prefix="fashion-infer-")
        place = Path(self._folder.name)
        self._program, self._report = place / "timed", place / "vectors.txt"
        command = build.command_in(place, file)
        words = [word for word in command if word not in ("-shared", "-O3") and not word.startswith("-Wl,")]
        driver = installation.resource_dir("submission") / "sampled_call.cpp"
        words += ["-x", "c++", "-std=c++17", str(driver), "-x", "none"]
        words += [f"-fopt-info-vec-all={self._report}", *_FLAGS, *flags, "-o", str(self._program)]
        self.warnings = said = programs.output(words, _BUILD, place, {"LC_ALL": "C"})
        if not self._program.is_file():
            line = next((one for one in said.splitlines() if "error" in one), said.strip()[-200:])
            self._folder.cleanup()
            raise DeviceError(f"{file.name} cannot be built again to be explained ({line.strip()})")

    def __enter__(self) -> "SampledProgram":
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    @property
    def vectors(self) -> str:
        return self._report.read_text(errors="replace") if self._report.is_file() else ""

    def run(self, shape: ConvolutionShape, seconds: float, images: int = _IMAGES) -> CpuRun:
        """Measure calls of a shape within a time limit."""
        end = time.monotonic() + seconds
        run = self._measured(shape._replace(B=images), end - seconds / 2)
        if not run.seconds:  # the call did not end, but may with an image per thread
            run = self._measured(shape._replace(B=len(os.sched_getaffinity(0))), end)
        # Few images may be too few for all threads.
        if run.threads == 1 and run.regions and len(os.sched_getaffinity(0)) > 1:
            one = shape._replace(B=1)
            floats = one.C * one.H * one.W + one.outputs
            left = min(_LONGEST, (end - time.monotonic()) / 4)
            images = min(_MANY, int(run.shape.B * left / run.seconds), _LARGEST // floats)
            again = self._measured(shape._replace(B=images), end) if images > 2 * run.shape.B else run
            run = again if again.seconds else run
        return run

    def _measured(self, shape: ConvolutionShape, end: float) -> CpuRun:
        said = self._called(shape, _CALLS, end - time.monotonic())
        return of(self._program, said, self._path)._replace(shape=shape)

    def _called(self, shape: ConvolutionShape, calls: int, seconds: float, *more: str) -> str:
        words = map(str, (shape.B, shape.C, shape.H, shape.M, shape.K, calls))
        return programs.output([str(self._program), *words, *more], seconds, self._program.parent)

    def invalid(self, shape: ConvolutionShape, seconds: float, poison: bool = False) -> Optional[int]:
        """Return the first line with an operation that has no valid result, with `poison` also for unwritten memory."""
        said = self._called(shape._replace(B=2), 2, seconds, "poison" if poison else "trap")
        at = re.search(r"^trapped 1 ([0-9a-f]+)$", said, re.MULTILINE)
        return _lines(self._program, [int(at[1], 16)], self._path).get(int(at[1], 16)) if at else None


def of(program: Path, said: str, path: Path) -> CpuRun:
    """Evaluate the output `said` of a program that samples a kernel: find the sampled lines and the hot loop."""
    calls = len(re.findall(r"^call \d+: status 0", said, re.MULTILINE))
    measured = re.search(r"^measured (\S+) (\S+) (\d+) (\S+)(?: (\S+) (\d+))?$", said, re.MULTILINE)
    if not calls or not measured:
        return CpuRun()
    rows = re.findall(r"^sample (\d+) ([0-9a-f]+) (\S+) (\S+)$", said, re.MULTILINE)
    places = [(thread, int(at, 16), Path(file).name, name) for thread, at, file, name in rows]
    waiting = [place for place in places if "gomp" in place[2]]
    working = [place for place in places if "gomp" not in place[2]]
    fastest, least, regions, peak, asleep, parts = (float(number or 0) for number in measured.groups())
    remedies = re.findall(r"^remedy (\S+) (\S+) (\S+)$", said, re.MULTILINE)
    run = CpuRun(fastest, least, regions / calls, peak, len(rows), asleep=asleep, parts=parts / calls)
    run = run._replace(remedies={name: (float(alone), float(together)) for name, alone, together in remedies})
    if not working:
        return run
    by_thread = Counter(place[0] for place in working)
    even = len(working) / len(by_thread)
    lines = _lines(program, sorted({at for _, at, _, _ in places if at}), path)
    waits = Counter(lines[at] for _, at, _, _ in waiting if at in lines)
    by_function = Counter(
        (file if name.startswith(("-", "_Z")) else name, lines.get(at)) for _, at, file, name in working if file != "-"
    )
    hits = Counter(at for _, at, file, _ in working if file == "-")
    code, beside, called = _loop(program, hits)
    lines.update(_lines(program, [at for at, _ in code], path))

    def sampled(loop: Sequence[Tuple[int, str]]) -> Tuple[float, Tuple[int, ...]]:
        """Return the fraction of the samples that a loop has, and its lines, most samples first."""
        inside = Counter({at: hits[at] for at, _ in loop if at in hits})
        in_lines = Counter(lines[at] for at in inside.elements() if at in lines)
        return sum(inside.values()) / len(working), tuple(line for line, _ in in_lines.most_common())

    (share, in_loop), (beside_share, in_beside) = sampled(code), sampled(beside)
    return run._replace(
        busiest=max(by_thread.values()) / len(working),
        threads=min(sum(number >= _WORKED * even for number in by_thread.values()), len(os.sched_getaffinity(0))),
        waiting=len(waiting) / len(rows),
        waits=tuple((line, number / len(rows)) for line, number in waits.most_common()),
        loop=tuple(text for _, text in code),
        loop_at=tuple(lines.get(at) for at, _ in code),
        loop_share=share,
        loop_lines=in_loop,
        beside=tuple(text for _, text in beside),
        beside_share=beside_share,
        beside_line=next(iter(in_beside), None),
        calls=tuple((name, number / len(working), lines.get(at)) for name, number, at in called),
        libraries=tuple((name, number / len(working), line) for (name, line), number in by_function.most_common()),
    )


def _called(text: str) -> str:
    """Return the name of the function that an instruction calls; "" if it calls none."""
    match = _CALL.match(text)
    return match["name"] if match else _POINTED if _INDIRECT.match(text) else ""


def _lines(program: Path, addresses: Sequence[int], path: Path) -> Dict[int, int]:
    """Return the file's line of each address. Within inlined functions, the innermost line in the file counts."""
    if not addresses:
        return {}
    command = ["addr2line", "-a", "-i", "-e", str(program), *(f"{at:x}" for at in addresses)]
    found: Dict[int, int] = {}
    at = 0
    for row in programs.output(command, _TOOL).splitlines():
        if row.startswith("0x"):
            at = int(row, 16)
            continue
        file, _, line = row.partition(" (discriminator")[0].rpartition(":")
        if Path(file).name == path.name and line.isdecimal() and at not in found:
            found[at] = int(line)
    return found


_Code = List[Tuple[int, str]]  # instructions and their addresses


def _loop(program: Path, hits: Mapping[int, int]) -> Tuple[_Code, _Code, List[Tuple[str, int, int]]]:
    """Find the hot loop: the smallest loop with at least half as many samples as the loop with most samples.

    Return its instructions, those of the hottest other loop without products, and its calls (`CpuRun.calls`).
    """
    code: _Code = []
    owner: Dict[int, str] = {}
    function = ""
    for row in programs.output(["objdump", "-dC", "--no-show-raw-insn", str(program)], _TOOL).splitlines():
        head = re.match(r"[0-9a-f]+ <(.+)>:$", row)
        if head:
            function = head[1]
        body = re.match(r"\s+([0-9a-f]+):\s+(\S.*)$", row)
        if body:
            code.append((int(body[1], 16), re.sub(r"\s+", " ", body[2].partition("#")[0]).strip()))
            owner[code[-1][0]] = function
    by_function: Dict[str, int] = Counter()
    for at, number in hits.items():
        by_function[owner.get(at, "")] += number
    loops, total = [], sum(hits.values())  # (samples, samples in the loop itself, instructions)
    for at, text in code:
        branch = _BRANCH.match(text)
        if branch and int(branch["to"], 16) < at and owner.get(int(branch["to"], 16)) == owner[at]:
            first = int(branch["to"], 16)
            inside = [(place, word) for place, word in code if first <= place <= at]
            own = sum(number for place, number in hits.items() if first <= place <= at)
            called = {name for _, word in inside for name in [_called(word)] if name} - {owner[at]}
            if own < _CALLER * total:
                called.discard(_POINTED)  # its samples may be those of functions that other loops call
            by_function[_POINTED] = total - by_function[owner[at]]
            loops.append((own + sum(by_function[name] for name in called), own, inside))
    # A jump without a condition may lead back from a part of a loop that lies behind it. Such a loop counts only if
    # the others have few samples.
    tested = [loop for loop in loops if not loop[-1][-1][1].startswith("jmp")]
    if max((score for score, *_ in tested), default=0) >= total / 2:
        loops = tested
    inside = _smallest([(score, loop) for score, _, loop in loops])
    if not inside:
        return [], [], []
    function = owner[inside[0][0]]
    by_function[_POINTED] = total - by_function[function]
    named = [(_called(text), at) for at, text in inside]
    calls = sorted(((name, by_function[name], at) for name, at in named if name and name != function),
                   key=lambda call: -call[1])  # fmt: skip
    elsewhere = [  # without samples in functions that they call, which may multiply
        (own, loop)
        for score, own, loop in loops
        if score == own and owner[loop[0][0]] not in dict(named)
        if loop[-1][0] < inside[0][0] or inside[-1][0] < loop[0][0]  # its samples are not those of the hot loop
    ]
    idle = [one for one in elsewhere if not MachineLoop([text for _, text in one[1]]).products]
    return inside, _smallest(idle), calls


def _smallest(loops: Sequence[Tuple[int, _Code]]) -> _Code:
    """Return the smallest loop with at least half of the most samples; [] without samples."""
    most = max((samples for samples, _ in loops), default=0)
    hottest = [loop for samples, loop in loops if most and samples >= most / 2]
    return min(hottest, key=lambda loop: loop[-1][0] - loop[0][0], default=[])
