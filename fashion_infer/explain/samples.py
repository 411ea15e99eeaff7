"""Finds where a CPU kernel spends its time: samples of its threads, by source line and by machine-code loop.

custom_ops/submission/sampled_call.h takes the samples. binutils' addr2line and objdump find the source line and the
instructions at each sampled address.
"""

import re
from collections import Counter
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

from ..system import programs

FLAGS = ["-g", "-DFOPS_SAMPLES", "-Wl,--wrap=GOMP_parallel", "-ldl", "-lpthread"]
_TOOL = 20  # time limit of addr2line and of objdump, in seconds
_WORKED = 0.05  # fraction of an even share of the samples; a thread with fewer samples counts as not working
_BRANCH = re.compile(r"(?:j\w+|b\.\w+|cbn?z|tbn?z)\b.*?\b(?P<to>[0-9a-f]+) <")
_ADD = r"v?(?:fn?m(?:add|sub)\w*|add)"
_STORE = r"v?mov\w+ %[xyz]mm\d+,[-+.\w]*\((?!%rsp|%rbp)"
_FLOATS = r"v?(?:f?n?m(?:add|sub|ul)\w*|add|sub|mov[aul]\w*|movss|broadcasts)[sp]?[sd]?\b"
_MEMORY = r"[-+.\w]*\((?!%rsp)[^)]*\)"  # not on the stack, where registers are spilled
_READS_TARGET = r"(?:add|sub|mul|div|min|max|xor|pxor|v?fn?m)"  # instructions that also read the register they write
_CALL = re.compile(r"(?:callq?|bl)\s+[0-9a-f]+ <(?P<name>.+)>$")
_INDIRECT = re.compile(r"callq?\s+\*|blr\s")
_CALLER = 0.05  # least fraction of the samples in a loop that calls functions through pointers
_POINTED = "a function through a pointer"


class CpuRun(NamedTuple):
    """Measurements of a kernel's calls on the CPU."""

    seconds: float = 0.0  # duration of the fastest call
    processor: float = 0.0  # processor time of all threads per call, in seconds
    regions: float = 0.0  # number of parallel regions per call
    peak: float = 0.0  # this machine's operations per second in multiply-adds on registers; 0 if not measured
    samples: int = 0  # number of samples
    threads: int = 0  # number of threads that did a part of the work
    waiting: float = 0.0  # fraction of the samples in the code of GNU's OpenMP library
    waits: Tuple[Tuple[int, float], ...] = ()  # (line that calls OpenMP, fraction of the samples), largest first
    lines: Tuple[Tuple[int, float], ...] = ()  # (line of the file, fraction of the working samples), largest first
    loop: Tuple[str, ...] = ()  # instructions of the innermost loop that takes most of the time
    loop_share: float = 0.0  # fraction of the working samples in that loop
    loop_lines: Tuple[int, ...] = ()  # lines of the file with samples of that loop, most samples first
    calls: Tuple[Tuple[str, float, Optional[int]], ...] = ()  # calls in the loop: (function, its fraction, line)
    libraries: Tuple[Tuple[str, float, Optional[int]], ...] = ()  # (library function, fraction, calling line)


class MachineLoop:
    """The instructions of a loop: x86 in AT&T syntax, in which the target is the last operand."""

    def __init__(self, texts: Sequence[str]):
        self.texts = texts
        self.vectors = bool(self.of(rf"{_ADD}p[sd]\b"))  # whether it adds vectors
        self.sums = self.of(rf"{_ADD}[sp][sd]\b")
        self.products = len(self.of(r"v?(?:fn?m(?:add|sub)\w*|mul)[sp][sd]\b"))
        self.stores = len(self.of(_STORE))

    def of(self, pattern: str) -> List[str]:
        """Return the instructions whose beginning matches a pattern."""
        return [text for text in self.texts if re.match(pattern, text)]

    @property
    def overlapping(self) -> List[str]:
        """Stores to the same address in every iteration, and loads that are repeated after a store.

        The compiler emits them if the output may overlap the inputs; otherwise it could keep the value in a register.
        """
        found: List[str] = []
        written = {_register(text) for text in self.texts}
        loaded: Dict[str, bool] = {}  # key: a loaded memory operand; value: whether a store followed the load
        for text in self.texts:
            operands = re.findall(_MEMORY, text)
            if re.match(_STORE, text):
                found += [text] if not {_name(name) for name in re.findall(r"%\w+", operands[-1])} & written else []
                loaded = dict.fromkeys(loaded, True)
                continue
            if operands and re.match(_FLOATS, text):
                found += [text] if loaded.get(operands[0]) else []
                loaded[operands[0]] = False
            changed = _register(text)
            loaded = {at: after for at, after in loaded.items() if changed not in map(_name, re.findall(r"%\w+", at))}
        return found

    @property
    def reloaded(self) -> List[str]:
        """Stores to an address from which the loop also loads, as it does for sums in memory."""
        read = {at for text in self.texts if not re.match(_STORE, text) for at in re.findall(_MEMORY, text)}
        return [text for text in self.of(_STORE) if read.issuperset(re.findall(_MEMORY, text))]

    @property
    def contiguous(self) -> bool:
        """Whether the loop loads several neighbouring floats at once."""
        return bool(self.of(rf"v?(?:mov[au]|mul|add|fn?m\w+)p[sd] .*{_MEMORY},%"))

    @property
    def carried(self) -> bool:
        """Whether an iteration needs a floating-point register that an earlier iteration wrote, such as a sum."""
        needed: Set[str] = set()
        written: Set[str] = set()
        for text in self.texts:
            names = re.findall(r"%[xyz](mm\d+)", text)
            target = names.pop() if re.search(r"%[xyz]mm\d+(?:\{[^}]*\})*$", text) else ""
            if target and re.match(_READS_TARGET, text):
                names.append(target)
            if not (re.match(r"v?p?xor", text) and set(names) == {target}):  # xor with itself gives 0
                needed.update(name for name in names if name not in written)
            written.add(target)
        return bool(needed & written)

    @property
    def chained(self) -> bool:
        """Whether most additions need the result of a previous addition, so that they cannot run in parallel."""
        depth: Dict[str, int] = {}  # key: a register; value: number of chained additions that its value depends on
        for text in self.texts:
            *sources, target = re.findall(r"%[xyz](mm\d+)", text) or [""]
            if target:
                added = text in self.sums
                waited = max((depth.get(name, 0) for name in [*sources, *([target] if added else [])]), default=0)
                depth[target] = waited + added
        return bool(self.sums) and max(depth.values(), default=0) >= 0.6 * len(self.sums)


def _name(register: str) -> str:
    """Return a general register's name without its width, so that %rax and %eax have the same name."""
    return re.sub(r"^[re](?=[a-z])|(?<=\d)[dwb]$", "", register.lstrip("%"))


def _register(text: str) -> str:
    """Return the general register that an instruction writes; "" if it writes none."""
    match = re.search(r"[ ,](%r\w+|%e\w+)$", text)
    return _name(match[1]) if match and not re.match(r"cmp|test|bt\b|push", text) else ""


def of(program: Path, said: str, path: Path) -> CpuRun:
    """Evaluate the output `said` of a program with `sampled_call.h`: find the sampled lines and the hot loop."""
    calls = len(re.findall(r"^call \d+: status 0", said, re.MULTILINE))
    measured = re.search(r"^measured (\S+) (\S+) (\d+) (\S+)$", said, re.MULTILINE)
    if not calls or not measured:
        return CpuRun()
    rows = re.findall(r"^sample (\d+) ([0-9a-f]+) (\S+) (\S+)$", said, re.MULTILINE)
    places = [(thread, int(at, 16), Path(file).name, name) for thread, at, file, name in rows]
    waiting = [place for place in places if "gomp" in place[2]]
    working = [place for place in places if "gomp" not in place[2]]
    run = CpuRun(
        float(measured[1]), float(measured[2]) / calls, int(measured[3]) / calls, float(measured[4]), len(rows)
    )
    if not working:
        return run
    by_thread = Counter(place[0] for place in working)
    even = len(working) / len(by_thread)
    lines = _lines(program, sorted({at for _, at, _, _ in places if at}), path)
    waits = Counter(lines[at] for _, at, _, _ in waiting if at in lines)
    by_line = Counter(lines[at] for _, at, _, _ in working if at in lines)
    by_function: Dict[Tuple[str, Optional[int]], int] = Counter(
        (name if name != "-" else file, lines.get(at)) for _, at, file, name in working if file != "-"
    )
    hits = Counter(at for _, at, file, _ in working if file == "-")
    inside, instructions, called = _loop(program, hits)
    called_at = _lines(program, sorted({at for _, _, at in called}), path)
    in_loop = Counter(lines[at] for at in hits.elements() if at in lines and inside[0] <= at <= inside[1])
    return run._replace(
        threads=sum(number >= _WORKED * even for number in by_thread.values()),
        waiting=len(waiting) / len(rows),
        waits=tuple((line, number / len(rows)) for line, number in waits.most_common()),
        lines=tuple((line, number / len(working)) for line, number in by_line.most_common()),
        loop=tuple(instructions),
        loop_share=sum(number for at, number in hits.items() if inside[0] <= at <= inside[1]) / len(working),
        loop_lines=tuple(line for line, _ in in_loop.most_common()),
        calls=tuple((name, number / len(working), called_at.get(at)) for name, number, at in called),
        libraries=tuple(
            (name, number / len(working), line)
            for (name, line), number in sorted(by_function.items(), key=lambda item: -item[1])
        ),
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


def _loop(program: Path, hits: Dict[int, int]) -> Tuple[Tuple[int, int], List[str], List[Tuple[str, int, int]]]:
    """Find the hot loop: the smallest loop with at least half as many samples as the loop with most samples.

    Samples in a function that a loop calls count for the loop. Returned are the loop's first and last address, its
    instructions, and its calls as (function, the function's samples, address of the call).
    """
    code: List[Tuple[int, str]] = []
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
    loops, total = [], sum(hits.values())
    for at, text in code:
        branch = _BRANCH.match(text)
        if branch and int(branch["to"], 16) < at and owner.get(int(branch["to"], 16)) == owner[at]:
            first = int(branch["to"], 16)
            inside = [word for place, word in code if first <= place <= at]
            own = sum(number for place, number in hits.items() if first <= place <= at)
            called = {name for word in inside for name in [_called(word)] if name} - {owner[at]}
            if own < _CALLER * total:
                called.discard(_POINTED)  # its samples may be those of functions that other loops call
            by_function[_POINTED] = total - by_function[owner[at]]
            loops.append((own + sum(by_function[name] for name in called), first, at, inside))
    # A jump without a condition may lead back from a part of a loop that lies behind it. Such a loop counts only if
    # the others have few samples.
    tested = [loop for loop in loops if not loop[3][-1].startswith("jmp")]
    if max((score for score, *_ in tested), default=0) >= total / 2:
        loops = tested
    most = max((score for score, *_ in loops), default=0)
    if not most:
        return (0, -1), [], []
    _, first, last, inside = min((one for one in loops if one[0] >= most / 2), key=lambda one: one[2] - one[1])
    by_function[_POINTED] = total - by_function[owner[first]]
    calls = [
        (name, by_function[name], at)
        for at, text in code
        if first <= at <= last
        for name in [_called(text)]
        if name and name != owner[first]
    ]
    return (first, last), inside, sorted(calls, key=lambda call: -call[1])
