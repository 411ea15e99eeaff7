"""What the compiler says about a kernel file that is not run, such as a submission outside of its sandbox.

On the CPU the sources are GCC's assembly and GCC's reasons against vectorisation, on the GPU the resources that ptxas
reports. Only a run shows which loop takes the time, so these findings have no share of the time. Reports and assembly
of an untrusted file are untrusted, too: their size and the time to read them are bounded.
"""

import dataclasses
import re
from collections import Counter
from pathlib import Path
from typing import List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

from ..errors import DataError
from ..kernel_files import build, neighbours
from ..kernel_files.formats import KernelFile
from ..system import inputs
from . import listing, machine_loop, ncu, slow_cpu, slow_gpu, source
from .findings import KernelFinding, plain_name
from .machine_loop import MachineLoop
from .samples import CpuRun

_MOST = 5  # largest number of findings
_LARGEST = 8 << 20  # size limit of GCC's assembly, and of a report, in bytes
_LONGEST, _DEEPEST = 500, 20  # largest number of instructions of an innermost loop, and of loops that are examined
_CALL = re.compile(r"call (\w[\w.$]*)$")
_VECTORISED = r"^([^:\n]+):(\d{1,9}):\d+: (?:optimized|note): +loop vectorized"  # GCC 8 writes "note"
_PRODUCT = re.compile(r"v?(?:fn?m(?:add|sub)\w*|mul)[sp][sd]\b")


def findings(
    file: KernelFile, arch: Optional[str], compile: build.Compile, place: Path, within: Optional[Path] = None
) -> List[KernelFinding]:
    """Compile a correct kernel file in the empty folder `place`, without a run; return findings on its speed."""
    command = build.command_in(place, file, arch, within)
    if file.format.backend == "gpu":
        done = compile([*command, "-Xptxas=-v", "-o", str(place / "plugin.so")], place)
        found = slow_gpu.of_compiler(ncu.used(done.output), {}) if done.code == 0 else []
        return [dataclasses.replace(one, share=None) for one in found[:_MOST]]
    assembly, report = place / "out.s", place / "vectors.txt"
    flag = f"-fopt-info-vec-optimized-missed={report}"
    done = compile([*listing.assembly_command(command, file, assembly), flag], place)
    if done.code:
        return []
    texts = [
        inputs.read_own(each, _LARGEST, DataError, "the compiler's ").decode(errors="replace")
        for each in (assembly, report)
        if each.exists()
    ]
    return of_assembly(file.path, *texts)


def of_assembly(path: Path, assembly: str, said: str = "") -> List[KernelFinding]:
    """Return the findings in the innermost loops with products of x86 assembly in AT&T syntax, deepest loops first."""
    # If one of several loops of the same lines uses vectors, the others compute the remaining elements, and are left
    # out; so are loops without vectors if the report has vectors of their lines, which may be in no loop any more.
    lines = source.without_comments(neighbours.text_of(path))
    missed = slow_cpu.reasons(path, said)
    vectors = {int(line) for name, line in re.findall(_VECTORISED, said, re.MULTILINE) if Path(name).name == path.name}
    loops = [loop for loop in _chosen(_loops(assembly, path)) if loop.hot <= len(lines)]
    loops = [loop for loop in loops if loop.rank[0] or vectors.isdisjoint(loop.lines)]
    deepest = sorted(loops, key=lambda one: -one.depth)[:_DEEPEST]
    return [finding for loop in deepest for finding in _of_loop(path, lines, missed, loop)][:_MOST]


def _of_loop(
    path: Path, lines: Sequence[str], missed: Mapping[int, Sequence[str]], loop: "_InnerLoop"
) -> List[KernelFinding]:
    run = CpuRun(loop=loop.texts, loop_share=1.0, loop_lines=tuple(loop.lines), calls=loop.calls)
    costs = slow_cpu.of_loop(path, lines, missed, run, loop.hot)
    return [dataclasses.replace(one.finding, share=None) for one in sorted(costs, key=lambda one: -one.share)]


class _InnerLoop(NamedTuple):
    """An innermost loop that computes products itself or in functions that it calls."""

    texts: Tuple[str, ...]
    lines: Set[int]  # lines of the kernel file
    hot: int  # the line with most of the products
    depth: int  # number of the function's loops that contain this loop, itself included
    calls: Tuple[Tuple[str, float, Optional[int]], ...]  # as in `CpuRun`

    @property
    def rank(self) -> Tuple[bool, int]:
        """Sort key for loops of the same lines: loops with vectors rank higher, then loops with more products."""
        loop = MachineLoop(self.texts)
        return loop.vectors or bool(loop.of(r"v?mulp[sd]")), loop.products


def _loops(assembly: str, path: Path) -> List[_InnerLoop]:
    functions = list(machine_loop.functions(assembly, path))
    multiplying = {one.name for one in functions if not one.loops and any(_PRODUCT.match(text) for _, text in one.code)}
    found = []
    for function in functions:
        for first, last in function.loops:
            inner = any(first <= start and end < last for start, end in function.loops)
            if inner or last - first >= _LONGEST:
                continue
            code = function.code[first : last + 1]
            called = [(match[1], line) for line, text in code for match in [_CALL.match(text)] if match]
            calls = tuple((plain_name(name), 1.0, line) for name, line in called if name in multiplying)
            own = [line for line, text in code if line and (_PRODUCT.match(text) or _CALL.match(text))]
            lines = [line for line, _ in code if line]
            if lines and (calls or any(_PRODUCT.match(text) for _, text in code)):
                ((hot, _),) = Counter(own or lines).most_common(1)
                depth = sum(start <= first and last <= end for start, end in function.loops)
                found.append(_InnerLoop(tuple(text for _, text in code), set(lines), hot, depth, calls))
    return found


def _chosen(loops: List[_InnerLoop]) -> List[_InnerLoop]:
    """Group the loops that share source lines, and return the loop with the highest rank of each group."""
    groups: List[Tuple[Set[int], List[_InnerLoop]]] = []
    for loop in loops:
        same = [group for group in groups if not group[0].isdisjoint(loop.lines)]
        groups = [group for group in groups if group[0].isdisjoint(loop.lines)]
        joined = set(loop.lines).union(*(lines for lines, _ in same))
        groups.append((joined, [loop, *(each for _, members in same for each in members)]))
    return [max(members, key=lambda one: one.rank) for _, members in groups]
