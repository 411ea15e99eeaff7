"""The instructions of a loop of a CPU kernel, and what they show: vectors, sums, loads and stores."""

import os
import re
from pathlib import Path
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

_ADD = r"v?(?:fn?m(?:add|sub)\w*|add)"
_STORE = r"v?mov\w+ %[xyz]mm\d+,[-+.\w]*\((?!%rsp|%rbp)"
_FLOATS = r"v?(?:f?n?m(?:add|sub|ul)\w*|add|sub|mov[aul]\w*|movss|broadcasts)[sp]?[sd]?\b"
_MEMORY = r"[-+.\w]*\((?!%rsp)[^)]*\)"  # not on the stack, where registers are spilled
_READS_TARGET = r"(?:add|sub|mul|div|min|max|xor|pxor|v?fn?m)"  # instructions that also read the register they write
_LOOPS, _WIDEST = 1000, 200  # largest number of loops of a file, and of characters that are read of an instruction
_FUNCTION = re.compile(r"([A-Za-z_][\w.$]*):")
_LABEL = re.compile(r"(\.L\w+):")
_PLACE = re.compile(r"\s*\.loc (\d{1,9}) (\d{1,9})\b")
_JUMP = re.compile(r"j(?!mp)\w+ (\.L\w+)$")


class MachineLoop:
    """The instructions of a loop: x86 in AT&T syntax, in which the target is the last operand."""

    def __init__(self, texts: Sequence[str]):
        self.texts = texts
        self.vectors = bool(self.of(rf"{_ADD}p[sd]\b"))  # whether it adds vectors
        self.sums = self.of(rf"{_ADD}[sp][sd]\b")
        self.products = len(self.of(r"v?(?:fn?m(?:add|sub)\w*|mul)[sp][sd]\b"))
        self.stored = self.of(_STORE)
        self.stores = len(self.stored)

    def of(self, pattern: str) -> List[str]:
        """Return the instructions whose beginning matches a pattern."""
        return [text for text in self.texts if re.match(pattern, text)]

    def often(self, texts: Sequence[str]) -> List[str]:
        """Return instructions if there is one for every two products or more: fewer may be outside of an inner loop."""
        return list(texts) if 2 * len(texts) >= self.products else []

    @property
    def form(self) -> str:
        """Return "sum" if it adds up one output; "row" if it has vectors, or stores for most of the products."""
        return "row" if self.vectors or self.stores > self.products / 2 > 0 else "sum"

    @property
    def on_stack(self) -> List[str]:
        """Accesses of variables that are in memory, on the stack."""
        return self.of(r".*\(%r[sb]p\)")

    @property
    def dispatched(self) -> List[str]:
        """Comparisons that test whether a virtual function is the one of which the loop has a copy."""
        pattern = r"^mov\w* [-+\w]*\(%r\w+\),(%r\w+)\n(cmp\w* (?:%r\w+,\1|\1,%r\w+))\njne"
        return [text for _, text in re.findall(pattern, "\n".join(self.texts), re.MULTILINE)]

    @property
    def width(self) -> int:
        """How many floats its additions and multiplications have at most."""
        counts = {"x": 4, "y": 8, "z": 16}
        names = re.findall(r"%([xyz])mm", " ".join(self.of(r"v?(?:fn?m|add|mul)\w*ps\b")))
        return max((counts[name] for name in names), default=1)

    @property
    def accesses(self) -> int:
        """How many of its instructions load or store floats in memory other than the stack."""
        return sum(bool(re.search(_MEMORY, text)) for text in self.texts if re.match(_FLOATS, text))

    @property
    def overlapping(self) -> List[str]:
        """Stores to one address, and loads repeated after a store, as if the output might overlap the inputs."""
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
    def indirect(self) -> List[str]:
        """Loads of pointers or indices from addresses that change with each iteration."""
        written = {_register(text) for text in self.texts}
        loads = self.of(rf"(?:movslq|mov) {_MEMORY},%[re]|vp(?:add|mul)\w+ {_MEMORY}")
        names = ({_name(name) for name in re.findall(r"%\w+", re.findall(_MEMORY, text)[0])} for text in loads)
        return [text for text, used in zip(loads, names) if used & written]

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


class MachineFunction(NamedTuple):
    """A function of an assembly."""

    name: str
    code: List[Tuple[Optional[int], str]]  # (line of the kernel file, instruction)
    loops: List[Tuple[int, int]]  # positions of the first and the last instruction


def functions(assembly: str, path: Path) -> Iterator[MachineFunction]:
    """Yield the functions of a translation unit. Stop in the function in which the unit exceeds _LOOPS loops."""
    names = re.findall(r'^\t\.file (\d{1,9}) (?:"[^"\n]*" )?"([^"\n]+)"', assembly, re.MULTILINE)
    own = {number for number, name in names if _unescaped(name) == str(path.resolve())}
    function, labels, line, count = MachineFunction("", [], []), {}, None, 0  # type: ignore[var-annotated]
    for row in assembly.splitlines():
        if row.startswith("\t."):
            place = _PLACE.match(row)
            line = (int(place[2]) if place[1] in own else None) if place else line
        elif row.startswith("\t"):
            text = row[:_WIDEST].strip().replace("\t", " ").replace(", ", ",")
            function.code.append((line, text))
            jump = _JUMP.match(text)
            if jump and jump[1] in labels:
                function.loops.append((labels[jump[1]], len(function.code) - 1))
                count += 1
                if count > _LOOPS:
                    return
        elif _LABEL.match(row):
            labels[row.partition(":")[0]] = len(function.code)
        elif _FUNCTION.match(row):
            yield function
            function, labels = MachineFunction(row.partition(":")[0], [], []), {}
    yield function


def _unescaped(name: str) -> str:
    """Return the path that a quoted name stands for. In the name, bytes that are not printable are octal escapes."""
    octal = re.compile(rb"\\([0-7]{3}|.)")
    plain = octal.sub(lambda match: bytes([int(match[1], 8) % 256]) if len(match[1]) == 3 else match[1], name.encode())
    return os.fsdecode(plain)
