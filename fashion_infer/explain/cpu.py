"""Explains why a CPU kernel is wrong or slow.

The sources are GCC's sanitizers, GCC's vectorisation report, the machine instructions, and samples of the threads. A
sanitizer's runtime cannot be loaded into a running Python process. The kernel file is therefore compiled together with
a small program of ours (custom_ops/submission/sanitized_call.cpp), which calls the kernel.
"""

import os
import re
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..errors import DeviceError
from ..judging.calls import most_images
from ..kernel_files import build, neighbours
from ..kernel_files.formats import KernelFile
from ..system import programs, resources
from . import samples, source
from .findings import KernelFinding, at_line

REMEDIES: Dict[str, Tuple[str, Optional[str]]] = {  # code: (remedy, our CPU kernel that applies it)
    "out_of_bounds_read": ("compare the index with 0 and with the sides of the tensor or array", None),
    "out_of_bounds_write": ("compare the index with 0 and with the sides: H - K + 1 and W - K + 1 for outputs", None),
    "array_too_small": ("give the array as many elements as the loop uses, computed from the layer's sizes", None),
    "misaligned_access": ("load and store without alignment, as with _mm256_loadu_ps or memcpy", None),
    "uninitialised_read": ("set the memory to zero, or store to it, before you read it", None),
    "use_after_free": ("keep the memory until its last use, and free it once", None),
    "undefined": ("do what the message says; an index that overflows needs 64 bits", None),
    "race_on_output": ("let one thread own an output, and declare sums inside of the parallel loop", None),
    "stale_output": ("begin the sum at zero for each output, and store it", None),
    "double": ("use float throughout, and literals such as 0.0f", "shifted"),
    "int_to_float": ("convert before the loop over the taps", "shifted"),
    "call_in_loop": ("let the compiler see the function's body, or write it into the loop", "shifted"),
    "library_in_loop": ("allocate, clear and copy memory once, outside of the loops", "direct"),
    "waiting_inside": (
        "give each thread its own outputs in the outermost loop, so that it waits only at the end; a dynamic schedule "
        "needs large chunks",
        "direct",
    ),
    "branch_in_loop": ("let the loops begin and end at the border, so that no product needs a condition", "shifted"),
    "false_sharing": ("sum in a local variable, and store once", "direct"),
    "one_thread": ("share images or filters among threads: #pragma omp parallel for, without large chunks", "direct"),
    "strided_inner_loop": ("let the innermost loop walk along w, where neighbours lie side by side", "shifted"),
    "alias": ("keep the sum in a local variable, or declare the pointers __restrict__: no two then overlap", "shifted"),
    "serial_sum": (
        "turn the loops around: add one weight's products to a whole row of outputs, whose sums wait for nothing",
        "shifted",
    ),
    "sum_in_memory": ("keep the sums of several filters and neighbouring outputs in registers", "direct"),
    "parallel_inside": (
        "make the outermost loop the parallel one, over images, so that a call begins one region",
        "direct",
    ),
    "integer_division": ("count rows and columns along in nested loops, in place of / and %", "shifted"),
    "no_products": ("read the input where the product needs it, or copy once what several products use", "direct"),
    "not_vectorised": ("let the innermost loop walk along w, with a fixed number of taps outside of it", "shifted"),
}
MEMORY = ("out_of_bounds_read", "out_of_bounds_write", "array_too_small", "use_after_free")  # may stop the process
_SANITIZE = ["-fsanitize=address,undefined", "-fno-omit-frame-pointer", "-g", "-O1"]
_BUILD = 60  # time limit of a compilation, in seconds
_CASE = 20  # time limit of one case under a sanitizer, in seconds
_RUN = {"ASAN_OPTIONS": "detect_leaks=0:halt_on_error=1:symbolize=1", "UBSAN_OPTIONS": "print_stacktrace=1"}
_TENSORS = {"tensor_of_input": "the input", "tensor_of_weights": "the weights", "tensor_of_output": "the output"}
_FRAME = re.compile(r"#\d+ \S+ in (?P<function>\S+)(?: [^/\n]*)? (?P<file>/[^:\n]+):(?P<line>\d+)")
_IMAGES, _CALLS = 64, 500  # number of images per call, and largest number of calls
_REGIONS = 200  # limit for the parallel regions per call, above which there is a finding; about three times _IMAGES
_WAITING = 0.15  # least fraction of the time for a finding: a smaller wait may be due to other work of the machine
_LIBRARY = 0.2  # least fraction of the time in library functions for a finding
_CALLED = 0.1  # least fraction of the time in a function that the hot loop calls, for a finding
_STORED = 0.3  # stores per multiply-add above which sums should be kept in registers
_ALONE = 1.5  # several threads worked if a call's processor time is this multiple of its duration, or more
_NEAR = 6  # largest distance, in lines, between a statement and the head of its loop
_BOUNDS = (
    (r"^(?:C|in_?c\w*|Channel\w*|channels?)$", "channels"),
    (r"^(?:M|Map_out|out_?c\w*|filters?)$", "filters"),
    (r"^(?:B|Batch\w*|images?)$", "images"),
    (r"^(?:H\w*|OH|out_?h\w*|h_?out|height\w*)\b(?:\s*-\s*K\s*\+\s*1)?$", "rows"),
)
_UNINITIALISED = ("incorrect", "unstable", "race", "later_call", "sum_not_reset")  # verdicts that it may cause
_UNDEFINED = (  # patterns of UndefinedBehaviorSanitizer's messages, and the codes of findings
    (r"misaligned address", "misaligned_access"),
    (r"index (?!-)\d+ out of bounds", "array_too_small"),
)
_VECTORS = re.compile(r"vector_size|\b__m(?:128|256|512)|_mm\d*_|\bomp\s+simd")
# Verdicts that a call with two images may not show.
_MANY = ("crash", "reads_outside", "writes_after_end", "writes_outside", "images_from", "fixed_batch")


def wrong(file: KernelFile, cases: Sequence[Any], seconds: float) -> List[KernelFinding]:
    """Find the lines that make a kernel wrong, with AddressSanitizer and UndefinedBehaviorSanitizer.

    Parameters
    ----------
    file
        A kernel file for the CPU, compiled by us.
    cases
        The incorrect trials, as `judging.calls.Tried`. Their codes name mistakes that no sanitizer detects.
    seconds
        Time limit for all compilations and calls together.

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
        calls = [(case, 2) for case in cases[:2]]
        # A stray access may hit other memory of the program, depending on the number of images.
        calls += [
            (case, images)
            for case in cases[:2]
            if case.code in _MANY
            for images in (2 * case.shape[0] + 1, most_images(case.shape, "cpu"))
        ]
        for case, images in calls:
            _, channels, side, _, filters, taps = case.shape
            left = min(_CASE, end - time.monotonic())
            if left <= 1 or found:
                break
            command = [str(program), *map(str, (images, channels, side, filters, taps, 2))]
            found += of_report(_said(command, left, place), file.path)
        if found or not any(case.code for case in cases):
            return found
        _, warnings = _assembly(file, place)
    return of_verdict(file.path, [case.code for case in cases], warnings)


def of_report(said: str, path: Path) -> List[KernelFinding]:
    """Return the findings in the output of AddressSanitizer and UndefinedBehaviorSanitizer."""
    found = []
    for match in re.finditer(
        r"^(?P<file>/[^:\n]+):(?P<line>\d+):\d+: runtime error: (?P<what>.*)$", said, re.MULTILINE
    ):
        # For an error in the header of an intrinsic, the line is that of the kernel's call.
        stack = re.split(r"\n\n|runtime error", said[match.end() :], maxsplit=1)[0]
        line = int(match["line"]) if Path(match["file"]).name == path.name else _own_line(stack, path)
        if line:
            code = next((code for pattern, code in _UNDEFINED if re.search(pattern, match["what"])), "undefined")
            what = f"has undefined behaviour: {match['what']}"
            found.append(made(path, code, line, what, {"runtime error": match["what"]}))
    report = re.search(r"ERROR: AddressSanitizer: (?P<kind>[\w-]+)(?P<text>.*)", said, re.DOTALL)
    if not report:
        return found[:1]
    kind, text = report["kind"], report["text"]
    own = _own_line(text, path)
    if own is None or (found and found[0].line == own and (kind in ("SEGV", "FPE") or found[0].code != "undefined")):
        return found[:1]  # UndefinedBehaviorSanitizer gives the reason
    access = re.search(r"^(READ|WRITE) of size \d+|caused by a (READ|WRITE) memory access", text, re.MULTILINE)
    verb = "writes" if access and "WRITE" in access[0] else "reads"
    code = f"out_of_bounds_{verb[:-1]}"
    # AddressSanitizer lists several variables or arrays around the address. The nearest one was meant.
    near = min(
        re.findall(r"is located (\d+) bytes (before|after|to the left|to the right)", text),
        key=lambda one: int(one[0]),
        default=("", ""),
    )
    before = near[1] in ("before", "to the left") or kind == "stack-buffer-underflow"
    tensor = next((words for name, words in _TENSORS.items() if name in text), "an array of the file's own")
    if kind == "heap-use-after-free" and tensor in _TENSORS.values():
        what = f"{verb} memory that was {tensor} of an earlier call: outside of this call's tensors"
    elif kind == "heap-use-after-free":
        code, what = "use_after_free", f"{verb} memory that was freed"
    elif kind.startswith("stack-use-after"):
        code, what = "use_after_free", f"{verb} a local variable after the end of its block"
    elif "double-free" in text.partition("\n")[0]:
        code, what = "use_after_free", "frees memory that was already freed"
    # A fault without an address: x86 reports none for a vector instruction at an address that is not aligned.
    elif kind == "SEGV" and re.match(r" on unknown address \(", text) and _VECTORS.search(neighbours.text_of(path)):
        code, what = "misaligned_access", f"{verb} a vector at an address that is not aligned"
    elif kind == "SEGV":
        what = f"{verb} at an address that is no memory of the program"
    elif kind.endswith(("-buffer-overflow", "-buffer-underflow")):
        what = f"{verb} {'before the beginning' if before else 'past the end'} of {tensor}"
        code = code if before or tensor in _TENSORS.values() else "array_too_small"
    else:
        code, what = "undefined", f"stops AddressSanitizer: {kind}{text.partition(chr(10))[0]}"
    evidence = {"sanitizer": kind, "access": access[0] if access else "", "tensor": tensor}
    return [made(path, code, own, what, evidence), *(one for one in found[:1] if one.line != own)]


def _own_line(stack: str, path: Path) -> Optional[int]:
    """Return the line of the innermost frame in the kernel file."""
    return next((int(one["line"]) for one in _FRAME.finditer(stack) if Path(one["file"]).name == path.name), None)


def of_verdict(path: Path, codes: Sequence[str], warnings: str = "") -> List[KernelFinding]:
    """Return findings from the judge's verdict, for a file in which no sanitizer found a line.

    Parameters
    ----------
    path
        The kernel file.
    codes
        The verdicts' codes (`judging.reasons`).
    warnings
        GCC's warnings.
    """
    lines = neighbours.text_of(path).splitlines()
    for code in codes:
        store, finding, what = None, "stale_output", ""
        warned = re.search(rf"{re.escape(path.name)}:(\d+):\d+: warning: (.*) \[-W(?:maybe-)?uninitialized\]", warnings)
        if warned and code in _UNINITIALISED:
            what = f"has a variable that may have no value: {warned[2]}"
            return [made(path, "uninitialised_read", int(warned[1]), what, {"verdict": code, "warning": warned[2]})]
        if code == "race":
            shared = source.race(lines)
            if shared:
                store, finding = shared[0], "race_on_output"
                what = f"stores to {store.target} in threads that differ in {shared[1]}, on which it does not depend"
        elif code == "accumulates":
            store, what = source.stale(lines), "adds to what the output held before the call"
        elif code == "carries_over":
            store, what = source.kept(lines), "adds to a variable that keeps its value from call to call"
        elif code == "sum_not_reset":
            store, what = source.not_reset(lines), "adds to a sum that starts with the value of the output before"
        elif code in _UNINITIALISED:
            store, what = source.not_zeroed(lines), "adds to memory that nothing has set to zero"
            finding = "uninitialised_read"
        if store:
            return [made(path, finding, store.line, what, {"verdict": code, "target": store.target})]
    return []


def slow(file: KernelFile, layers: Sequence[Any], seconds: float) -> "CpuSpeed":
    """Return findings on a correct kernel's speed, largest share of the time first, and the measurements.

    Parameters
    ----------
    file
        A kernel file for the CPU, compiled by us.
    layers
        Correct layers, as `judging.calls.Tried`; only the first layer is called.
    seconds
        Time limit for compiling and calling.

    Raises
    ------
    DeviceError
        When there is no compiler.
    """
    end = time.monotonic() + seconds
    with tempfile.TemporaryDirectory(prefix="fashion-infer-") as folder:
        place = Path(folder)
        command = build.command_in(place, file)
        report = place / "vectors.txt"
        _said([*command, f"-fopt-info-vec-all={report}", "-o", str(place / "plugin.so")], _BUILD, place)
        said = report.read_text(errors="replace") if report.is_file() else ""
        program = _program(file, place, [*samples.FLAGS, "-O3"])
        _, channels, side, _, filters, taps = layers[0].shape
        words = map(str, (_IMAGES, channels, side, filters, taps, _CALLS))
        run = samples.of(program, _said([str(program), *words], end - time.monotonic(), place), file.path)
    return CpuSpeed(of_run(file.path, said, run), run)


class CpuSpeed(NamedTuple):
    """Findings on a kernel's speed, and the measurements that they come from."""

    findings: List[KernelFinding]
    run: samples.CpuRun

    def figures(self, shape: Sequence[int]) -> Dict[str, Any]:
        """Return the kernel's figures next to the machine's limits; {} if nothing was measured.

        The figures are GFLOP/s, threads and processors, and the tensors' bytes with the sizes of the caches.
        """
        if not self.run.seconds:
            return {}
        _, channels, side, _, filters, taps = shape
        outputs = filters * (side - taps + 1) ** 2
        return {
            "images": _IMAGES,
            "gflop_s": 2e-9 * _IMAGES * outputs * channels * taps**2 / self.run.seconds,
            "peak_gflop_s": 1e-9 * self.run.peak,
            "threads": self.run.threads,
            "processors": len(os.sched_getaffinity(0)),
            "image_bytes": 4 * (channels * side**2 + outputs),
            "weight_bytes": 4 * filters * channels * taps**2,
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


def of_run(path: Path, said: str, run: samples.CpuRun) -> List[KernelFinding]:
    """Return findings from the time samples, the instructions of the hot loop, and GCC's vectorisation report."""
    lines = neighbours.text_of(path).splitlines()
    # Samples may also fall on the head of the loop. Prefer the line whose statement adds a product, or adds.
    adding = [
        number
        for pattern in (r"\+=.*\*|fma", r"\+=")
        for number in run.loop_lines[:3]
        if re.search(pattern, lines[number - 1])
    ]
    hot = next(iter([*adding, *run.loop_lines]), None)
    inside = run.regions > _REGIONS and run.waiting > _WAITING
    # Threads also wait at the end of a parallel loop, which may be due to other work of the machine.
    waits = (
        []
        if inside
        else [
            (number, part)
            for number, part in run.waits
            if not re.search(r"omp\s+parallel(?!.*\b(?:dynamic|guided))", " ".join(lines[max(0, number - 2) : number]))
        ]
    )
    waited = sum(part for _, part in waits)
    # A kernel that waits often spends the rest of the time in its loop.
    busy = 1 - run.waiting if inside else 1 - waited
    share = run.loop_share * busy
    found: List[KernelFinding] = []

    def add(code: str, part: float, line: Optional[int], what: str, **evidence: Any) -> None:
        found.append(made(path, code, line, what, evidence, min(part, 0.99)))

    cores = len(os.sched_getaffinity(0))
    # On a busy machine the timer's signals may all reach one thread, but the others still use processor time.
    if cores > 1 and run.threads == 1 and run.processor < _ALONE * run.seconds:
        add(
            "one_thread",
            1 - 1 / cores,
            None,
            f"one of {cores} processors works",
            threads=run.threads,
            seconds=run.seconds,
            processor_seconds=run.processor,
        )
    if inside:
        pragmas = [number for number, text in enumerate(lines, 1) if re.search(r"#\s*pragma\s+omp\s+parallel", text)]
        add(
            "parallel_inside",
            run.waiting,
            pragmas[-1] if len(pragmas) == 1 else None,
            f"begins {run.regions:,.0f} parallel regions a call, and threads wait for {run.waiting:.0%} of their time",
            regions=run.regions,
            waiting=run.waiting,
        )
    if waited > _WAITING:
        where = waits[0][0]
        words = f"makes threads wait for one another during the work: {waited:.0%} of their time"
        add("waiting_inside", waited, where, words, waits=waits[:10])
    in_libraries = busy * sum(part for _, part, _ in run.libraries)
    if in_libraries > _LIBRARY:
        names = list(dict.fromkeys(name for name, _, _ in run.libraries))[:3]
        words = f"spends {in_libraries:.0%} of the time in functions of libraries: {', '.join(names)}"
        add("library_in_loop", in_libraries, run.libraries[0][2], words, functions=run.libraries[:10])
    shared = [number for number in _shared_sums(lines) if number in run.loop_lines]
    if shared and run.threads != 1:
        add(
            "false_sharing",
            0.85 * share,
            shared[0],
            "threads add to neighbouring numbers, which share a cache line",
            lines=shared,
        )
    if hot:
        of_loop(add, lines, reasons(path, said), run._replace(loop_share=share), hot)
    return sorted(found, key=lambda one: -(one.share or 0.0))


def reasons(path: Path, said: str) -> Dict[int, List[str]]:
    """Return GCC's reasons why a file's loops have no vectors, by line, from `-fopt-info-vec-missed` or `-vec-all`."""
    found: Dict[int, List[str]] = {}
    for name, number, text in re.findall(
        r"^([^:\n]+):(\d{1,9}):\d+: missed: +not vectorized: (.*)$", said, re.MULTILINE
    ):
        if Path(name).name == path.name and "nest" not in text:  # a nest is vectorised by its innermost loop
            found.setdefault(int(number), []).append(text)
    return found


def _shared_sums(lines: Sequence[str]) -> List[int]:
    """Return the numbers of lines such as `sums[thread] += ...`, whose elements share a cache line between threads."""
    names = {"omp_get_thread_num()"}
    for line in lines:
        match = re.search(r"\b(\w+)\s*=\s*omp_get_thread_num\s*\(\s*\)\s*[;,]", line)
        names |= {match[1]} if match else set()
    if any(re.search(r"alignas|aligned|\bpad", line) for line in lines):
        return []
    pattern = re.compile(rf"\[\s*(?:{'|'.join(map(re.escape, names))})\s*\](?:\.\w+)?\s*\+=")
    return [number for number, line in enumerate(lines, 1) if pattern.search(line)]


def of_loop(
    add: Callable[..., None], lines: Sequence[str], missed: Mapping[int, Sequence[str]], run: samples.CpuRun, hot: int
) -> None:
    """Add findings from the instructions of an innermost loop.

    Parameters
    ----------
    add
        Function that is called with a finding's code, share, line, description and evidence.
    lines
        The file's lines.
    missed
        GCC's reasons, as `reasons` returns them.
    run
        The loop: with samples, the one that takes most of the time.
    hot
        The loop's line.
    """
    loop, share = samples.MachineLoop(run.loop), run.loop_share
    called = [call for call in run.calls if call[1] > _CALLED][:1]
    for name, part, line in called:
        add("call_in_loop", 0.8 * max(share, part), line or hot, f"calls {name} in the innermost loop", share=part)
    if loop.of(r"i?div[bwlq]?\b"):
        add(
            "integer_division",
            0.8 * share,
            hot,
            "divides integers, or takes remainders, in the innermost loop",
            instructions=loop.of(r"i?div[bwlq]?\b"),
        )
        return  # a division takes longer than the sum waits, and is the reason why there are no vectors
    doubles = loop.of(r"v?(?:cvtss2sd|cvtps2pd|f?n?m?(?:add|sub|mul)\d*[sp]d)\b")
    if doubles:
        add(
            "double",
            0.6 * share,
            hot,
            "computes in double: half as many numbers in a vector, and conversions",
            instructions=doubles[:10],
        )
    integers = loop.of(r"v?cvt(?:si2ss|dq2ps|usi2ss|udq2ps)")
    if integers:
        add(
            "int_to_float", 0.6 * share, hot, "converts integers to float for every product", instructions=integers[:10]
        )
    if called or not run.loop:
        return
    products = loop.products
    why = [text for line in sorted(set(run.loop_lines)) for text in missed.get(line, ())]
    # What the loop iterates over is guessed from the names in the line. State the guess only for a measured loop.
    over = _goes_over(lines, hot) if run.samples and not loop.contiguous else ""
    branches = loop.of(r"j(?!mp)|cmov")
    condition = _condition(lines, hot) if len(branches) > 1 or loop.of(".*mask|v?blend") else None
    if products and condition and not loop.vectors:
        add("branch_in_loop", 0.65 * share, condition, "tests a condition for every product", branches=branches)
    if not products:
        if share > _LIBRARY:
            add("no_products", share, hot, f"takes {share:.0%} of the time and multiplies nothing", loop=run.loop[:20])
    elif loop.of(r"v?gather"):
        add(
            "strided_inner_loop",
            0.8 * share,
            hot,
            "gathers numbers that lie far apart in memory",
            instructions=loop.of(r"v?gather"),
        )
    elif not loop.vectors and over:
        add(
            "strided_inner_loop",
            0.85 * share,
            hot,
            f"goes over {over}, which lie far apart in memory: no vectors",
            over=over,
            missed=why[:5],
        )
    elif not loop.vectors and loop.chained and loop.carried and not loop.stores:
        words = "adds up one output, each addition waiting for the one before: not in vectors"
        add("serial_sum", 0.8 * share, hot, words, additions=loop.sums[:10])
    elif not loop.vectors and loop.overlapping:
        words = "stores its sums for every product: as far as the compiler sees, y may overlap what it reads"
        add("alias", 0.75 * share, hot, words, instructions=loop.overlapping[:10])
    elif not loop.vectors and not condition and not loop.of(r"v?mulp[sd]") and (why or run.samples):
        reason = why[0] if why else "the compiler gives no reason"
        add(
            "not_vectorised",
            0.7 * share,
            hot,
            f"uses no vectors: {reason}",
            missed=reason,
            instructions=[*loop.sums, *loop.of(r"v?mul[sp]")][:10],
        )
    summed = loop.stores if run.samples else len(loop.reloaded)
    if loop.vectors and products and summed >= _STORED * products:
        add(
            "sum_in_memory",
            0.55 * share,
            hot,
            f"loads and stores its sums in the innermost loop: {loop.stores} stores for {products} multiply-adds",
            stores=loop.stores,
            products=products,
        )


def listing(file: KernelFile, hot: Sequence[int] = ()) -> str:
    """Return the instructions of the hot lines, each after its source line, below the compiler's command.

    Parameters
    ----------
    file
        A kernel file for the CPU, compiled by us.
    hot
        Numbers of the lines to list; if empty, the whole file is listed.

    Raises
    ------
    DeviceError
        When there is no compiler.
    """
    with tempfile.TemporaryDirectory(prefix="fashion-infer-") as folder:
        place = Path(folder)
        command, (text, _) = build.command_in(place, file), _assembly(file, place)
    lines = neighbours.text_of(file.path).splitlines()
    shown = [" ".join(command)]
    for number, texts in sorted(_by_line(text, file.path).items()):
        if number <= len(lines) and (not hot or number in hot):
            shown.append(f"{file.path.name}:{number}: {lines[number - 1].strip()}")
            shown += [f"    {one}" for one in texts]
    return "\n".join(shown)


def _assembly(file: KernelFile, place: Path) -> Tuple[str, str]:
    """Compile the kernel's translation unit with the program's options.

    Return its assembly with line numbers, which is empty after an error, and what the compiler printed.
    """
    target = place / "out.s"
    said = _said(assembly_command(build.command_in(place, file), file, target), _BUILD, place)
    return target.read_text() if target.is_file() else "", said


def assembly_command(command: Sequence[str], file: KernelFile, target: Path) -> List[str]:
    """Return the command that writes the assembly of a kernel file, made from the command that builds its plug-in."""
    sources = [word for before, word in zip(command, command[1:]) if before in ("c", "c++")]
    kept = sources[0] if file.format.linked else sources[-1]  # the adapter includes the file if it is not linked
    dropped = {*sources, "-shared", "-lpthread"} - {kept}
    words = [word for word in command if word not in dropped and not word.startswith("-Wl,")]
    return [*words, "-g", "-S", "-o", str(target)]


def _program(file: KernelFile, place: Path, flags: Sequence[str]) -> Path:
    """Compile a kernel with the program that calls it, and return the program's path."""
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
            if re.search(r"lib[a-z]+san|-fsanitize", line)
            else ""
        )
        raise DeviceError(f"{file.name} cannot be built again to be explained ({line.strip()}){hint}")
    return target


def _said(command: Sequence[str], seconds: float, folder: Path) -> str:
    return programs.output(command, seconds, folder, {**_RUN, "LC_ALL": "C"})


def _goes_over(lines: Sequence[str], hot: int) -> str:
    """Return what the hot line's loop iterates over: channels, filters, rows or images; "" for columns and taps."""
    for number in range(hot, max(0, hot - _NEAR), -1):
        header = re.search(r"\bfor\s*\([^;]*;\s*\w+\s*<=?\s*(?P<bound>[^;]+);", lines[number - 1])
        if re.search(r"\b(?:while|do|for)\b", lines[number - 1]) and not header:
            return ""
        if header:
            bound = header["bound"].strip()
            return next((words for pattern, words in _BOUNDS if re.search(pattern, bound)), "")
    return ""


def _condition(lines: Sequence[str], hot: int) -> Optional[int]:
    """Return the line of a condition between the head of the hot line's loop and that line; None if there is none."""
    for number in range(hot, max(0, hot - _NEAR), -1):
        header = re.search(r"\b(?:for|while)\s*\(", lines[number - 1])
        if re.search(r"\bif\s*\(|\?.*:", lines[number - 1][header.end() if header else 0 :].partition("//")[0]):
            return number
        if header:
            return None
    return None


def _by_line(assembly: str, path: Path) -> Dict[int, List[str]]:
    """Return the instructions of each line of a file, from assembly with `.loc` directives."""
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


def made(
    path: Path, code: str, line: Optional[int], what: str, evidence: Mapping[str, Any], share: Optional[float] = None
) -> KernelFinding:
    """Make a finding with the remedy of its code; parameters as in `findings.at_line`."""
    remedy, kernel = REMEDIES[code]
    return at_line(path, line, code, f"{path.name}:{line} {what}" if line else what, remedy, evidence, share, kernel)
