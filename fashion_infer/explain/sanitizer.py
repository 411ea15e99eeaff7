"""Converts compute-sanitizer's reports on a kernel to findings with source lines."""

import re
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Tuple

from ..kernel_files import neighbours
from . import source
from .findings import KernelFinding, at_line

TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")  # best explanation first
_PLACE = re.compile(r"(?:\+0x[0-9a-f]+ in |\(\)?\+0x[0-9a-f]+ in |\bin )(?P<file>[^\s()]+\.[A-Za-z]+):(?P<line>\d+)")
_PLACE_OLD = re.compile(r"(?P<file>[^\s()]+\.(?:cuh?|h|hpp|cpp|cc|inc)):(?P<line>\d+)")
_ACCESS = re.compile(r"Invalid __(?P<space>\w+)__ (?P<how>read|write|atomic) of size (?P<size>\d+)")
_RACE = re.compile(r"Race reported between (?P<first>Write|Read)\b.*?access at")
_HAZARD = re.compile(r"\b(?P<first>Write|Read)(?:\(\d+\))? access (?:by|at)", re.IGNORECASE)
_NEAREST = re.compile(r"([\d,]+ bytes (?:before|after)) the nearest allocation\b.*? of size ([\d,]+) bytes")
_UNINITIALISED = re.compile(r"Uninitialized __(?P<space>\w+)__ memory read", re.IGNORECASE)
# Other errors, such as an illegal address, come from an earlier kernel.
_API = re.compile(
    r"Program hit (?P<name>cudaError(?:Invalid|Memory|LaunchOut|Cooperative)\w+) .*?on CUDA API call to "
    r"(?P<call>\w*Launch|cuda(?:Mem|Malloc|Host|Func)[A-Za-z]*(?:2D|3D)?(?:Async)?)"
)
_BARRIER = re.compile(r"Barrier error detected\.?\s*(?P<why>.*)")
_ERRORS = (_ACCESS, _RACE, _HAZARD, _UNINITIALISED, _API, _BARRIER)
_TAIL = re.compile(r"__sync(?:threads|warp)\b")


class Report(NamedTuple):
    """One error of compute-sanitizer: the report's first line, its other lines, and the source lines that they name."""

    tool: str
    head: str
    below: Tuple[str, ...]

    @property
    def places(self) -> List[Tuple[str, int]]:
        """(file, line) of device code that the report names; the lines of the access come first."""
        found = []
        for line in (self.head, *self.below):
            if "Host Frame" in line or "backtrace" in line:
                break
            match = _PLACE.search(line) or _PLACE_OLD.search(line)
            if match:
                found.append((match.group("file"), int(match.group("line"))))
        return found


def reports(text: str, tool: str) -> List[Report]:
    """Parse the errors in a tool's output, whose lines begin with `=========`."""
    made: List[Report] = []
    block: List[str] = []
    for line in [*text.splitlines(), "========="]:
        if not line.startswith("========="):
            continue
        inner = line[len("=========") :]
        # A report's first line is indented by one space, its other lines by more.
        if not inner.strip() or not inner.startswith("  "):
            if block and any(pattern.search(block[0]) for pattern in _ERRORS):
                made.append(Report(tool, block[0], tuple(block[1:])))
            block = [inner.strip()] if inner.strip() else []
        elif block:
            block.append(inner.strip())
    return made


def findings(found: List[Report], path: Path) -> List[KernelFinding]:
    """Convert the tools' reports on the user's file to findings, one per code and line, in the order of `TOOLS`."""
    lines = neighbours.text_of(path).splitlines()
    made: Dict[Tuple[str, Optional[int]], KernelFinding] = {}
    for report in sorted(found, key=lambda one: TOOLS.index(one.tool)):
        places = [(Path(file).name, line) for file, line in report.places]
        own = [line for file, line in places if file == path.name]
        if places and not own:
            continue
        finding = _finding(report, path, lines, own)
        if finding is not None:
            made.setdefault((finding.code, finding.line), finding)
    # Memory past a tensor's end is unwritten, too: an access there is one error, not two.
    outside = {line for code, line in made if code == "out_of_bounds_read"}
    return [one for one in made.values() if one.code != "uninitialised_read" or one.line not in outside]


def _finding(report: Report, path: Path, lines: List[str], own: List[int]) -> Optional[KernelFinding]:
    name, line = path.name, own[0] if own else None
    evidence = {"tool": report.tool, "said": [report.head, *report.below[:12]], "lines": own}

    def make(code: str, what: str, at: Optional[int], remedy: str) -> KernelFinding:
        return at_line(path, at, code, what, remedy, evidence)

    race = _RACE.search(report.head)
    if race or (report.tool == "racecheck" and own):
        other = own[1] if len(own) > 1 else line
        if line is None:
            return None
        read_first = re.search(r"between Read\b", report.head)
        first, second = (other or line, line) if read_first else (line, other or line)
        missing = f"{name}:{first} writes shared memory that :{second} uses in the same phase"
        between = any(_TAIL.search(row) for row in lines[min(first, second) : max(first, second) - 1])
        wrap = " of the next round of the loop" if between or second < first else ""
        remedy = "put a __syncthreads() between the lines, where all threads of the block reach it"
        return make("missing_barrier", f"{missing}{wrap}: a __syncthreads() is missing between them", first, remedy)
    access = _ACCESS.search(report.head)
    if access:
        said = " ".join(report.below)
        space, how = access.group("space"), access.group("how")
        if "misaligned" in said:
            what = f"{name}:{line} accesses {access.group('size')} bytes at an address that is no multiple of them: "
            what += "a row of the image or of the output need not begin there"
            remedy = "read float by float where the row's length is no multiple of the vector's"
            return make("misaligned_access", what, line, remedy)
        code = f"out_of_bounds_{'read' if how == 'read' else 'write'}"
        verb, near = {"read": "reads", "write": "writes"}.get(how, "adds atomically to"), _NEAREST.search(said)
        where = f"{near[1]} an allocation of {near[2]} bytes" if near else "out of bounds"
        what = f"{name}:{line} {verb} {access.group('size')} bytes of {space} memory, {where}"
        return make(code, what, line, "compare the index with the size of this memory before the access")
    if _UNINITIALISED.search(report.head):
        shared = "shared" in report.head
        code = "uninitialised_shared" if shared else "uninitialised_read"
        what = f"{name}:{line} reads {'shared' if shared else 'device'} memory that nothing has written"
        return make(code, what, line, "write every element before it is read, also those outside of the image")
    if _BARRIER.search(report.head) or report.tool == "synccheck":
        what = f"{name}:{line} has a barrier that not all threads of the block reach"
        remedy = "move the __syncthreads() out of the condition; keep threads without an output in the loop"
        return make("divergent_barrier", what, line, remedy)
    api = _API.search(report.head)
    rows = source.without_comments("\n".join(lines))
    if api and "Launch" in api.group("call"):
        at = source.launch(rows)
        what = f"{name}{f':{at}' if at else ''} launches nothing ({api.group('name')}): more threads, shared memory or "
        remedy = "keep a block to 1,024 threads and 48 KB of shared memory, and every side of the grid above 0"
        return make("wrong_launch", f"{what}blocks than there are", at, remedy)
    calls = source.matching(rows, rf"\b{api['call']}\b") if api else []
    if api and calls:
        places = " or ".join(map(str, calls))
        what = f"{name}:{places} fails: {api.group('call')} returns {api.group('name')}"
        remedy = "check what the call returns: sizes and pointers must fit the memory"
        return make("failed_call", what, source.single(calls), remedy)
    return None
