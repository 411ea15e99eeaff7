"""Why a kernel for the CPU is wrong or slow: GCC's sanitizers, its report on vectors, instructions, and threads.

A sanitizer's runtime cannot be loaded late into Python, so the file is compiled together with a small program of ours
(custom_ops/submission/sanitized_call.cpp), which calls it.
"""

import os
import re
import resource
import tempfile
import time
from pathlib import Path
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..errors import DeviceError
from ..kernel_files import build
from ..kernel_files.formats import KernelFile
from ..system import resources
from . import programs
from .findings import KernelFinding, at_line

REMEDIES: Dict[str, Tuple[str, Optional[str]]] = {  # code: remedy, our CPU kernel that does so
    "out_of_bounds_read": ("bound the loop, or the index, by the tensor's own sides", None),
    "out_of_bounds_write": ("let h and w end at H - K + 1 and W - K + 1", None),
    "use_after_free": ("keep the memory until the last use", None),
    "undefined": ("see the rule of C++ that the line breaks; 64-bit indices end overflows", None),
    "race_on_output": ("let one thread own an output, and declare sums inside of the parallel loop", None),
    "stale_output": ("begin the sum at zero, and store it", None),
    "double": ("use float throughout, and literals such as 0.0f", "shifted"),
    "int_to_float": ("convert before the loop over the taps", "shifted"),
    "call_in_loop": ("let the compiler see the function's body, or write it into the loop", "shifted"),
    "false_sharing": ("sum in a local variable, and store once", "direct"),
    "one_thread": ("share images or filters among threads: #pragma omp parallel for", "direct"),
    "strided_inner_loop": ("let the innermost loop walk along w, where neighbours lie side by side", "shifted"),
    "alias": ("copy the pointers into __restrict__ ones: the compiler then need not fear that y overlaps x", "shifted"),
    "not_vectorised": ("let the innermost loop walk along w, with a fixed number of taps outside of it", "shifted"),
}
_SANITIZE = ["-fsanitize=address,undefined", "-fno-omit-frame-pointer", "-g", "-O1"]
_BUILD = 60  # seconds of a compilation at most
_CASE = 20  # seconds of a case under a sanitizer at most
_RUN = {"ASAN_OPTIONS": "detect_leaks=0:halt_on_error=1:symbolize=1", "UBSAN_OPTIONS": "print_stacktrace=1"}
_TENSORS = {"tensor_of_input": "the input", "tensor_of_weights": "the weights", "tensor_of_output": "the output"}
_FRAME = re.compile(r"#\d+ \S+ in (?P<function>\S+)(?: [^/\n]*)? (?P<file>/[^:\n]+):(?P<line>\d+)")
_STALE = ("accumulates", "carries_over", "not_all_written", "not_written", "sum_not_reset")


class CpuRun(NamedTuple):
    """A call's seconds, and the processor's time beside them: what threads worked together."""

    seconds: float
    processor: float


def wrong(file: KernelFile, cases: Sequence[Any], seconds: float) -> List[KernelFinding]:
    """The lines that make a kernel wrong, by AddressSanitizer and UndefinedBehaviorSanitizer over two images.

    Parameters
    ----------
    file
        A kernel file for the CPU, compiled by us.
    cases
        What is wrong: `judging.calls.Tried`, whose codes say what no sanitizer sees.
    seconds
        For everything.

    Raises
    ------
    DeviceError
        When there is no compiler, or it has no sanitizers.
    """
    end = time.monotonic() + seconds
    found: List[KernelFinding] = []
    with tempfile.TemporaryDirectory(prefix="fashion-infer-") as folder:
        place = Path(folder)
        program = _program(file, place, _SANITIZE)
        for case in list(cases)[:2]:
            _, channels, side, _, filters, taps = case.shape
            left = min(_CASE, end - time.monotonic())
            if left <= 1 or found:
                break
            command = [str(program), *map(str, (2, channels, side, filters, taps, 2))]
            found += of_report(_said(command, left, place), file.path)
    return found or of_verdict(file.path, [case.code for case in cases])


def of_report(said: str, path: Path) -> List[KernelFinding]:
    """Findings in what AddressSanitizer and UndefinedBehaviorSanitizer printed."""
    found = []
    for match in re.finditer(
        r"^(?P<file>/[^:\n]+):(?P<line>\d+):\d+: runtime error: (?P<what>.*)$", said, re.MULTILINE
    ):
        if Path(match["file"]).name == path.name:
            found.append(
                _made(
                    path,
                    "undefined",
                    int(match["line"]),
                    f"has undefined behaviour: {match['what']}",
                    {"runtime error": match["what"]},
                )
            )
    report = re.search(r"ERROR: AddressSanitizer: (?P<kind>[\w-]+)(?P<text>.*)", said, re.DOTALL)
    if not report:
        return found[:1]
    text = report["text"]
    own = next((int(frame["line"]) for frame in _FRAME.finditer(text) if Path(frame["file"]).name == path.name), None)
    access = re.search(r"^(READ|WRITE) of size \d+|caused by a (READ|WRITE) memory access", text, re.MULTILINE)
    writes = bool(access and "WRITE" in access[0])
    tensor = next((words for name, words in _TENSORS.items() if name in text), "its memory")
    side = "before" if re.search(r"bytes (?:before|to the left of)", text) else "past"
    if report["kind"] == "heap-use-after-free":
        code, what = "use_after_free", "uses memory that was given back"
    elif report["kind"] == "SEGV":
        code = "out_of_bounds_write" if writes else "out_of_bounds_read"
        what = f"{'writes' if writes else 'reads'} at an address that is no memory of the program"
    elif report["kind"] in ("heap-buffer-overflow", "global-buffer-overflow", "stack-buffer-overflow"):
        code = "out_of_bounds_write" if writes else "out_of_bounds_read"
        bound = "the end of" if side == "past" else "the beginning of"
        what = f"{'writes' if writes else 'reads'} {side} {bound} {tensor}: its row or column has no bound there"
    else:
        return found[:1]
    evidence = {"sanitizer": report["kind"], "access": access[0] if access else "", "tensor": tensor}
    return [_made(path, code, own, what, evidence), *found[:1]]


def of_verdict(path: Path, codes: Sequence[str]) -> List[KernelFinding]:
    """What the judge's verdict says together with the line that shows it, where no sanitizer found one."""
    lines = path.read_text(errors="replace").splitlines()
    parallel = [number for number, line in enumerate(lines, 1) if re.search(r"#\s*pragma\s+omp\s+parallel", line)]
    adding = [number for number, line in enumerate(lines, 1) if re.search(r"\]\s*\+=|\)\s*\+=", line.split("//")[0])]
    for code in codes:
        if code == "race" and parallel:
            behind = [number for number in adding if number > parallel[0]]
            line = behind[0] if behind else parallel[0]
            what = (
                "adds to an output that other threads add to as well: the parallel loop is over taps or channels"
                if behind
                else "shares a variable among the threads: what is declared outside of the loop belongs to all of them"
            )
            return [_made(path, "race_on_output", line, what, {"verdict": code, "parallel": parallel})]
        if code in _STALE and adding:
            what = "adds to what the output held before the call"
            return [_made(path, "stale_output", adding[0], what, {"verdict": code})]
    return []


def slow(file: KernelFile, layers: Sequence[Any], seconds: float) -> List[KernelFinding]:
    """What holds a correct kernel back, largest share first.

    Parameters
    ----------
    file
        A kernel file for the CPU, compiled by us.
    layers
        `judging.calls.Tried` of correct layers; the first one is called.
    seconds
        For compiling and calling.

    Raises
    ------
    DeviceError
        When there is no compiler.
    """
    end = time.monotonic() + seconds
    with tempfile.TemporaryDirectory(prefix="fashion-infer-") as folder:
        place = Path(folder)
        command = build.command_in(place, file)
        said = _said([*command, "-fopt-info-vec-all", "-o", str(place / "plugin.so")], end - time.monotonic(), place)
        program = _program(file, place, ["-O3", *(["-march=native"] if "-march=native" in command else [])])
        text = _assembly(file, place)
        _, channels, side, _, filters, taps = layers[0].shape
        run = _timed([str(program), *map(str, (64, channels, side, filters, taps, 3))], end - time.monotonic(), place)
    return of_compiler(file.path, said, text, run)


def of_compiler(path: Path, said: str, assembly: str, run: CpuRun) -> List[KernelFinding]:
    """Findings in GCC's report on vectors, the instructions of the file's lines, and the time of a call."""
    lines = path.read_text(errors="replace").splitlines()
    loop = _hot_loop(lines)
    found: List[KernelFinding] = []

    def add(code: str, share: float, line: Optional[int], what: str, **evidence: Any) -> None:
        found.append(_made(path, code, line, what, evidence, share))

    cores = len(os.sched_getaffinity(0))
    threads = re.search(r"#\s*pragma\s+omp\s+parallel|std::(?:jthread|thread|async)|pthread_create", "\n".join(lines))
    per_line = _by_line(assembly, path)
    inner = [text for number, texts in per_line.items() if loop and loop[0] <= number <= loop[1] for text in texts]
    shared = [
        number
        for number, line in enumerate(lines, 1)
        if re.search(r"\[[^\]]*(?:omp_get_thread_num|\btid\b|\bthread\b|\bt\b)[^\]]*\]\s*\+=", line)
    ]
    missed = [
        (int(number), text)
        for name, number, text in re.findall(r"^([^:\n]+):(\d+):\d+: missed: (.*)$", said, re.MULTILINE)
        if Path(name).name == path.name
    ]
    vectors = [
        int(number)
        for name, number in re.findall(r"^([^:\n]+):(\d+):\d+: optimized: loop vectorized", said, re.MULTILINE)
        if Path(name).name == path.name
    ]
    aliased = re.search(rf"{re.escape(path.name)}:(\d+):\d+: (?:optimized|note|missed):[^\n]*(?:alias|versioned)", said)
    vectorised = bool(loop and any(loop[0] - 1 <= number <= loop[1] for number in vectors))
    calls = [text for text in inner if re.match(r"call\b", text)]
    if shared:
        add(
            "false_sharing",
            0.7,
            shared[0],
            "threads add to neighbouring numbers, which share a cache line",
            lines=shared,
        )
    if any(re.search(r"cvt(?:t?ss2sd|ps2pd|sd2ss|pd2ps)|(?:add|mul|fmadd\w*)[sp]d\b", text) for text in inner):
        add(
            "double",
            0.6,
            _line_of(per_line, loop, r"[sp]d\b|ss2sd|ps2pd"),
            "computes in double: half as many numbers in a vector, and conversions",
            instructions=inner[:20],
        )
    if any(re.search(r"cvt(?:si2ss|dq2ps)", text) for text in inner):
        add(
            "int_to_float",
            0.5,
            _line_of(per_line, loop, r"si2ss|dq2ps"),
            "converts integers to float for every product",
            instructions=inner[:20],
        )
    if calls:
        add(
            "call_in_loop",
            0.65,
            _line_of(per_line, loop, r"call\b"),
            "calls a function for every product",
            calls=sorted(set(calls))[:5],
        )
    if cores > 1 and not threads:
        add(
            "one_thread",
            0.9 * (1 - 1 / cores),
            None,
            f"one of {cores} processors works",
            seconds=run.seconds,
            processor_seconds=run.processor,
        )
    stride = _stride(lines, loop)
    if stride and not vectorised:
        add(
            "strided_inner_loop",
            0.75,
            loop[1] if loop else None,
            f"the innermost loop goes over {stride}, whose numbers lie far apart in memory: no vectors",
            missed=[text for _, text in missed][:5],
        )
    elif (aliased and not vectorised) or (aliased and "__restrict" not in "".join(lines)):
        add(
            "alias",
            0.55 if not vectorised else 0.3,
            loop[0] if loop else int(aliased[1]),
            "may write what it reads, as far as the compiler sees: vectors only behind a test, or none",
            said=aliased[0],
        )
    elif not vectorised and loop:
        reason = next((text for number, text in missed if loop[0] - 1 <= number <= loop[1]), "no reason given")
        add("not_vectorised", 0.6, loop[0], f"is no vector loop: {reason}", missed=reason)
    return sorted(found, key=lambda one: -(one.share or 0.0))


def listing(file: KernelFile) -> str:
    """The instructions of the hot loop beside their source lines, with the compiler's command above.

    Raises
    ------
    DeviceError
        When there is no compiler.
    """
    with tempfile.TemporaryDirectory(prefix="fashion-infer-") as folder:
        place = Path(folder)
        command, text = build.command_in(place, file), _assembly(file, place)
    lines = file.path.read_text(errors="replace").splitlines()
    loop = _hot_loop(lines) or (1, len(lines))
    shown = [" ".join(command)]
    for number, texts in sorted(_by_line(text, file.path).items()):
        if loop[0] <= number <= loop[1]:
            shown.append(f"{file.path.name}:{number}: {lines[number - 1].strip()}")
            shown += [f"    {one}" for one in texts]
    return "\n".join(shown)


def _assembly(file: KernelFile, place: Path) -> str:
    """The instructions of the translation unit that holds the kernel, compiled as the program compiles, with lines."""
    command, path = build.command_in(place, file), str(file.path.resolve())
    sources = [word for before, word in zip(command, command[1:]) if before in ("c", "c++") or word == path]
    kept = path if path in sources else next(word for word in sources if "adapters" in word)
    dropped = {*sources, "-shared", "-lpthread"} - {kept}
    words = [word for word in command if word not in dropped and not word.startswith("-Wl,")]
    _said([*words, "-g", "-S", "-o", str(place / "out.s")], _BUILD, place)
    return (place / "out.s").read_text() if (place / "out.s").is_file() else ""


def _program(file: KernelFile, place: Path, flags: Sequence[str]) -> Path:
    """The program that calls a kernel, compiled with it."""
    command = build.command_in(place, file)
    driver = resources.resource_dir("submission") / "sanitized_call.cpp"
    kept = [word for word in command if word not in ("-shared", "-O3") and not word.startswith("-Wl,")]
    target = place / ("checked" if "-fsanitize=address,undefined" in flags else "timed")
    linked = ["-x", "c++", "-std=c++17", str(driver), "-x", "none", *flags, "-lstdc++", "-lm", "-o", str(target)]
    said = _said([*kept, *linked], _BUILD, place)
    if not target.is_file():
        line = next((one for one in said.splitlines() if "error" in one), said.strip()[-200:])
        hint = (
            ": install GCC's sanitizers (Debian: apt install libasan8 libubsan1; Fedora: dnf install libasan libubsan)"
            if re.search("san", line)
            else ""
        )
        raise DeviceError(f"{file.name} cannot be built once more to be explained ({line.strip()}){hint}")
    return target


def _said(command: Sequence[str], seconds: float, folder: Path) -> str:
    return programs.output(command, seconds, folder, {**_RUN, "LC_ALL": "C"})


def _timed(command: Sequence[str], seconds: float, place: Path) -> CpuRun:
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    _said(command, seconds, place)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return CpuRun(time.monotonic() - began, used)


def _hot_loop(lines: Sequence[str]) -> Optional[Tuple[int, int]]:
    """First and last line of the innermost loop with a product: the deepest `for` and what is indented below it."""
    deepest: Optional[Tuple[int, int, int]] = None
    for number, line in enumerate(lines, 1):
        if not re.match(r"\s*for\s*\(", line):
            continue
        indent = len(line) - len(line.lstrip())
        last = number
        for below in range(number + 1, min(len(lines), number + 40) + 1):
            text = lines[below - 1]
            if text.strip() and len(text) - len(text.lstrip()) <= indent and not text.strip().startswith("//"):
                break
            last = below
        body = "\n".join(lines[number - 1 : last])
        if "*" in body and (deepest is None or indent >= deepest[0]):
            deepest = indent, number, last
    return deepest and (deepest[1], deepest[2])


def _stride(lines: Sequence[str], loop: Optional[Tuple[int, int]]) -> str:
    """What the innermost loop goes over, if not columns: channels, filters, rows or images."""
    if not loop:
        return ""
    header = lines[loop[0] - 1]
    variable = re.search(r"for\s*\([^;]*?\b(\w+)\s*=", header)
    bound = re.search(r";\s*\w+\s*<=?\s*([^;]+);", header)
    if not variable or not bound:
        return ""
    limit = bound[1].strip()
    for pattern, words in (
        (r"^(?:C|Channel\w*|channels?)$", "channels"),
        (r"^(?:M|Map_out|filters?)$", "filters"),
        (r"^(?:B|Batch|images?)$", "images"),
        (r"(?:^H|H_out|Ho|Height|OH|\bH\b)", "rows"),
    ):
        if re.search(pattern, limit):
            return words
    return ""


def _by_line(assembly: str, path: Path) -> Dict[int, List[str]]:
    """The instructions of each line of a file, in an assembly with `.loc` directives."""
    files = {
        number: name for number, name in re.findall(r'^\s*\.file (\d+) (?:"[^"]*" )?"([^"]+)"', assembly, re.MULTILINE)
    }
    own = {number for number, name in files.items() if Path(name).name == path.name}
    found: Dict[int, List[str]] = {}
    line: Optional[int] = None
    for row in assembly.splitlines():
        place = re.match(r"\s*\.loc (\d+) (\d+)", row)
        if place:
            line = int(place[2]) if place[1] in own else None
        elif line is not None and re.match(r"\t[a-z]", row) and not row.startswith("\t."):
            found.setdefault(line, []).append(row.strip().replace("\t", " "))
    return found


def _line_of(per_line: Mapping[int, Sequence[str]], loop: Optional[Tuple[int, int]], pattern: str) -> Optional[int]:
    """The line of the loop that most such instructions belong to."""
    first, last = loop or (1, 1 << 30)
    counts = {
        number: sum(bool(re.search(pattern, text)) for text in texts)
        for number, texts in per_line.items()
        if first <= number <= last
    }
    best = max(counts, key=lambda number: counts[number], default=None)
    return best if best is not None and counts[best] else None


def _made(
    path: Path, code: str, line: Optional[int], what: str, evidence: Mapping[str, Any], share: Optional[float] = None
) -> KernelFinding:
    remedy, kernel = REMEDIES[code]
    return at_line(path, line, code, f"{path.name}:{line} {what}" if line else what, remedy, evidence, share, kernel)
