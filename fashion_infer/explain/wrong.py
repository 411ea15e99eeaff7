"""Finds the lines that make a kernel wrong: those of the verdict's causes, of compute-sanitizer, and of the source."""

import concurrent.futures
import functools
import re
import time
from pathlib import Path
from typing import Callable, Dict, List, Optional, Sequence, Tuple

from ..errors import DeviceError
from ..graph.layers import ConvolutionShape
from ..judging import reasons
from ..judging.callers import sanitized
from ..judging.calls import Cause
from ..judging.inputs import Seed, random_inputs
from ..judging.verdict import ShapeVerdict, Verdict
from ..kernel_files import loading, neighbours
from ..kernel_files.formats import KernelFile
from ..system import programs
from . import device_call, sanitizer, source
from .findings import KernelFinding, at_line
from .samples import SampledProgram

_TOOL = 25  # time limit of a tool in seconds: a barrier that some threads do not reach may wait forever
_FEW = 2  # number of images in a call under a sanitizer
# Mistakes that a few images may not show. The sanitizers repeat these calls with the original number of images.
_MANY = ("images_from", "many_images", "images", "not_all_written", "unstable", "reads_outside")
_MOST = 64  # images of such a call on the CPU
# Reasons that a use of memory may have which nothing has written.
_UNWRITTEN = """uninitialised unstable race later_call cached carries_over accumulates sum_not_reset
    optimiser_hides places incorrect not_linear zero_data constant_added reads_outside""".split()  # noqa: SIM905
_COMPUTED = ("computes_nan", "nan_of_zeros")  # the judge has shown that no memory holds them before
_KEPT = ("kept_weights", "kept_pointer", "cached", "other_layers")  # reasons that what lasts between calls may have
_Search = Callable[[Sequence[str]], Optional[int]]
# (codes whose line is the one with an offset, where the sum begins, that rounds, that adds the products, or that stores
# the output; search for it)
_PLACES: Sequence[Tuple[str, _Search]] = (
    (r"constant_|zero_data", source.offset),
    (r"sum_not_reset|accumulates", source.start),
    (r"not_linear", source.rounded),
    (r"weights_|data_|channels_|taps_|uses_|lacks_|[kx]_strides|windows_|padded|stride$|\w+_channel$|one_(?:image|filter)|"
     r"other_(?:image|filter)|whole_numbers|imprecise|less_precise|reads_outside|several_channels", source.product),
    (r"output_|border|places|filters_from|images|(?:zeros_)?not_(?:all_)?written|relu|absolute|doubled|factor|clipped|"
     r"writes_|all_", source.output_store),
)  # fmt: skip
_REMEDIES = {
    "race": "let one thread own an output, and declare sums inside of the parallel loop",
    "accumulates": "begin the sum at zero for each output, and store it",
    "uninitialised_read": "set the memory to zero, or store to it, before you read it",
    "computes_nan": "do not divide by what may be 0, nor take the root or the logarithm of what may be negative",
    "out_of_bounds_read": "compare the index with 0 and with the sides of the tensor",
    "out_of_bounds_write": "compare the index with 0 and with the sides: H - K + 1 and W - K + 1 for outputs",
    "array_too_small": "give the array as many elements as the loop uses, computed from the layer's sizes",
    "null_pointer": "set the pointer before it is used",
    "use_after_free": "keep the memory until its last use, and free it once",
}


def findings(verdict: Verdict, seconds: float) -> Tuple[List[KernelFinding], List[str]]:
    """Return findings on why a file is incorrect, and sentences: missing tools, or why no line was found."""
    file, wrong = verdict.file, _incorrect(verdict)
    by_key: Dict[Tuple[str, Optional[int]], Cause] = {}
    for one in _causes(verdict):
        by_key.setdefault((one.code, one.details.get("line")), one)
    ordered = list(by_key.values())
    found = [_of_cause(file.path, one, one.details["line"]) for one in ordered if _own(file.path, one)]
    said: List[str] = []
    # A call that reached the time limit would reach it under a sanitizer, too.
    cases = [one for one in wrong if one.code not in ("time_limit", "hangs")]
    try:
        if not found and cases:
            tool = under_sanitizer if file.backend == "gpu" else _with_its_images
            found = tool(file, cases, seconds)
        if not found:
            found = by_source(file.path, [one.code for one in ordered], file.backend)
        if not found and file.backend == "cpu" and any(one.code in (*_UNWRITTEN, *_COMPUTED) for one in cases):
            found = _invalid(file, cases, seconds)
    except DeviceError as error:
        said.append(str(error))
    if not found:
        found = [made for one in ordered for made in [_place(file.path, one)] if made]
    return found, said if found else [*said, *(_no_line(one, verdict) for one in ordered[:1])]


def _incorrect(verdict: Verdict) -> List[ShapeVerdict]:
    """Return the incorrect layers, or other sizes if all layers are correct, the smallest first."""
    wrong = verdict.wrong or [one for one in verdict.shapes if not one.right]
    return sorted(wrong, key=lambda one: one.shape.operations // max(1, one.shape.B))


def _causes(verdict: Verdict) -> List[Cause]:
    return verdict.causes or [one.cause for one in _incorrect(verdict) if one.cause]


def _own(path: Path, cause: Cause) -> bool:
    return "line" in cause.details and cause.details.get("file", path.name) == path.name


def _of_cause(path: Path, cause: Cause, line: int) -> KernelFinding:
    """Make a finding of a cause of the verdict, at a line."""
    reason = reasons.TABLE[cause.code]
    code = reason.section or cause.code
    code = "out_of_bounds_write" if "out_of_bounds" in code and cause.details.get("verb") == "writes" else code
    remedy = _REMEDIES.get(code) or _REMEDIES.get(cause.code) or reason.remedy or "compare the line with the definition"
    words = reasons.sentence(cause)
    words = words if _own(path, cause) else f"{path.name}:{line}: {words}"
    return at_line(path, line, code, words, remedy, {"verdict": cause.code, **cause.details})


def _place(path: Path, cause: Cause) -> Optional[KernelFinding]:
    """Return a finding at the line that a cause is about; None unless the source has exactly one such line."""
    lines = source.without_comments(neighbours.text_of(path))
    for pattern, search in _PLACES:
        if re.match(pattern, cause.code):
            line = search(lines) or source.only(lines, str(cause.details.get("used", "")).partition("[")[0])
            return _of_cause(path, cause, line) if line else None
    return None


def _no_line(cause: Cause, verdict: Verdict) -> str:
    """Say why no line was found, and what to try."""
    if verdict.file.backend == "gpu":
        why, what = "compute-sanitizer reports no line", "compile with nvcc -G -lineinfo, and run cuda-gdb"
    elif cause.code in ("time_limit", "hangs"):
        why, what = "a call that does not end has no report", "interrupt it in gdb, with one image"
    elif cause.code in (*_KEPT, "later_call", "unstable", "uninitialised", "carries_over"):
        why, what = "it shows in several calls", "look for static variables, and for variables without a first value"
    elif cause.code in ("race", "thread_count"):
        why, what = "the sanitizers see no race", "compare how threads share the outputs with the number of threads"
    elif cause.code in reasons.HARMFUL:
        why, what = "the sanitizers see no error in memory with few images", "compile with -O0 -g, and run it in gdb"
    elif cause.code in ("not_linear", "changed_operand"):
        why, what = "no error in memory leads to it", "look for what clips, rounds or leaves out a value"
    else:
        why, what = "no error in memory leads to it", "compare the indices with the verdict's, for one image and filter"
    other = [name for name in verdict.by_edition if name not in verdict.right_for]
    edition = f"; or look at one edition: --edition {other[0]}" if len(other) > 1 else ""
    return f"No line was found: {why}. Try to {what}{edition}."


def _with_its_images(file: KernelFile, cases: Sequence[ShapeVerdict], seconds: float) -> List[KernelFinding]:
    """Run the judge's program with sanitizers with as many images as the incorrect call had; it had fewer before."""
    case = next((one for one in cases if one.code in _MANY or one.code in reasons.HARMFUL), None)
    build = sanitized.begin(file) if case else None
    if not case or not build:
        return []
    most = case.shape.B if case.code in ("crash", "stack") else _MOST  # an array may grow with the images
    shape = case.shape._replace(B=min(most, case.shape.B))
    inputs = random_inputs(Seed(0).stream(*shape[1:]), shape)
    run = build.run([sanitized.SanitizedCall(inputs)], min(_TOOL, seconds))
    causes = [one for one in (run.causes if run else []) if _own(file.path, one)]
    return [_of_cause(file.path, one, one.details["line"]) for one in causes]


# ---- the source, and memory that nothing has written


_RACE = "adds to the output without an atomic, and several threads may do so"
_BY_SOURCE: Sequence[Tuple[Sequence[str], str, _Search, str]] = (  # codes, finding ("": the code), search, description
    (("accumulates",), "stale_output", source.stale, "adds to what the output held before the call"),
    (("carries_over",), "stale_output", source.kept, "adds to a variable that keeps its value from call to call"),
    (("sum_not_reset",), "stale_output", source.not_reset, "adds to a sum that starts with the output before"),
    (_KEPT, "", source.lasting, "its contents last from call to call"),
    (("returns_early",), "", source.threads, "begins a thread, or lets one go"),
    (("inputs_changed",), "", source.writable, "a pointer to an input without const"),
    (_UNWRITTEN, "uninitialised_read", source.not_zeroed, "adds to memory that nothing has set to zero"),
)


def by_source(path: Path, codes: Sequence[str], backend: str = "cpu") -> List[KernelFinding]:
    """Return a finding at a line of the source whose text shows the fault of a verdict's code."""
    lines = source.without_comments(neighbours.text_of(path))
    races = ((("race", "unstable"), "race_on_output", source.unguarded, _RACE),) if backend == "gpu" else ()
    for code in codes:
        rule = next((rule for rule in (*races, *_BY_SOURCE) if code in rule[0]), None)
        line = rule[2](lines) if rule else None
        if rule and line:
            finding = rule[1] or code
            remedy = _REMEDIES.get("race" if finding == "race_on_output" else finding)
            remedy = remedy or reasons.TABLE[code].remedy or _REMEDIES["accumulates"]
            return [at_line(path, line, finding, f"{path.name}:{line}: {rule[3]}", remedy, {"verdict": code})]
    return []


def _invalid(file: KernelFile, cases: Sequence[ShapeVerdict], seconds: float) -> List[KernelFinding]:
    """Find the line that computes NaN, or else the one that uses memory which nothing has written."""
    path, end = file.path, time.monotonic() + seconds
    code, what = "uninitialised_read", "computes with memory that nothing has written"
    evidence = {"trap": "FE_INVALID"}
    with SampledProgram(file, "-O1", "-Wuninitialized", "-Wmaybe-uninitialized") as program:
        warned = re.search(
            rf"{re.escape(path.name)}:(\d+):\d+: warning: (.*) \[-W(?:maybe-)?uninitialized\]", program.warnings
        )

        def trapped(poison: bool) -> Optional[int]:
            return program.invalid(cases[0].shape, min(_TOOL, end - time.monotonic()), poison)

        if any(one.code in _COMPUTED for one in cases):
            code, what = "computes_nan", "the result of an operation is no number, as that of 0 / 0"
            line = trapped(False)
        elif warned:
            line, what, evidence = int(warned[1]), f"a variable may have no value: {warned[2]}", {"warning": warned[2]}
        else:
            line = trapped(True)
            line = line if line and line != trapped(False) else None
    return [at_line(path, line, code, f"{path.name}:{line}: {what}", _REMEDIES[code], evidence)] if line else []


# ---- compute-sanitizer


def under_sanitizer(  # pragma: no cover (needs a GPU; tests/gpu runs it)
    file: KernelFile, cases: Sequence[ShapeVerdict], seconds: float
) -> List[KernelFinding]:
    """Run compute-sanitizer's four tools on a few images of a shape, and of a second one if they find nothing."""
    tool = programs.find_tool("compute-sanitizer")
    _, library = loading.built(file)
    end = time.monotonic() + seconds
    found: List[KernelFinding] = []

    def reported(case: ShapeVerdict, name: str) -> List[sanitizer.Report]:
        shape = case.shape if case.code in _MANY else case.shape._replace(B=min(_FEW, case.shape.B))
        command = [*_sanitizer_command(tool, name), *device_call.command(library, ConvolutionShape(*shape), 2)]
        return sanitizer.reports(device_call.ran(command, min(_TOOL, end - time.monotonic())), name)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for case in cases[:2]:
            if found:
                break
            made = pool.map(functools.partial(reported, case), sanitizer.TOOLS)
            found = sanitizer.findings([one for each in made for one in each], file.path)
    return found


def _sanitizer_command(tool: str, name: str) -> List[str]:
    options = ["--tool", name, "--print-limit", "50", "--target-processes", "all"]
    if name == "memcheck":
        options += ["--padding", "1024", "--report-api-errors", "all"]
    if name == "initcheck" and "initcheck-address-space" in _help(tool):
        options += ["--initcheck-address-space", "all"]  # shared memory, too
    return [tool, *options]


@functools.lru_cache(maxsize=None)
def _help(tool: str) -> str:
    return device_call.ran([tool, "--help"], 20)
