"""Finds lines in a CPU kernel's source for faults that no sanitizer reports. Comments must be blanked.

The search uses regular expressions, not a parser. It names a line only if the line's text shows the fault.
"""

import re
from typing import List, NamedTuple, Optional, Sequence, Set, Tuple

_TYPE = r"\b(?:float|double|int|long|short|size_t|auto|(?:std::)?(?:vector|array)<[^;()]*>)"
_PARAMETER = (
    r"(?:^|[(,])\s*(?:(?:float|DType)\s*\*|(?:mshadow::)?Tensor<[^>]*>\s*&)\s*(?:__restrict(?:__)?\s+)?(\w+)\s*(?=[,)])"
)
_ALL_OUTPUTS = 4  # number of loops over images, filters, rows and columns


class LineStore(NamedTuple):
    """An assignment to a variable or an element of an array."""

    line: int
    target: str  # the left-hand side
    adds: bool  # whether the target is also read, as by `+=`

    @property
    def name(self) -> str:
        """The first name of the target."""
        return next(iter(re.findall(r"[A-Za-z_]\w*", self.target)), "")


def stores(lines: Sequence[str]) -> List[LineStore]:
    """Return the assignments with `=` and `+=`; declarations of variables are left out."""
    found = []
    for number, text in enumerate(lines, 1):
        for match in re.finditer(r"(?P<add>\+=)|(?<![-=!<>+*/%&|^])=(?!=)", text):
            target, rest = _target(text[: match.start()]), text[match.end() :].replace(" ", "")
            declares = re.search(rf"{_TYPE}[\s*&]*$", text[: match.start()].rstrip()[: -len(target) or None])
            if target and not declares and not re.match(r"\s*for\b.*\(\s*$", text[: match.start()]):
                again = rest.startswith(f"{target.replace(' ', '')}+")
                found.append(LineStore(number, target, bool(match["add"]) or again))
    return found


def without_comments(text: str) -> List[str]:
    """Return the lines of a C++ file with comments and the contents of strings blanked."""
    blank = re.compile(r'//[^\n]*|/\*.*?(?:\*/|\Z)|"(?:\\.|[^"\\\n])*"', re.DOTALL)
    return blank.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text).splitlines()


def matching(lines: Sequence[str], pattern: str) -> List[int]:
    """Return the numbers of the lines in which a pattern is found."""
    return [number for number, row in enumerate(lines, 1) if re.search(pattern, row)]


def single(found: Sequence[int]) -> Optional[int]:
    """Return the line that all of `found` are; None if there is none or another one."""
    return found[0] if len(set(found)) == 1 else None


def launch(lines: Sequence[str], kernel: str = "") -> Optional[int]:
    """Return the line that launches a kernel; without its name, of the only launch."""
    name = re.split(r"[<(]", kernel.split("::")[-1])[0].split()[-1:]
    launches = matching(lines, "<<<")
    own = [number for number in launches if name and re.search(rf"\b{re.escape(name[0])}\b", lines[number - 1])]
    return own[0] if own else single(launches)


def body(lines: Sequence[str], function: str) -> Tuple[int, int]:
    """Return the first and last line of a function's definition; (0, 0) if there is none."""
    text = "\n".join(lines)
    head = re.search(rf"\b{function}\s*\([^;{{}}]*\)\s*\{{", text)
    if not head:
        return 0, 0
    depth, at = 1, head.end()
    while depth and at < len(text):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        at += 1
    return text.count("\n", 0, head.start()) + 1, text.count("\n", 0, at) + 1


def product(lines: Sequence[str]) -> Optional[int]:
    """Return the line that adds a product to a sum; None unless there is exactly one."""
    found = [store.line for store in stores(lines) if store.adds and "*" in lines[store.line - 1]]
    return single(found or matching(lines, r"\bfmaf?\s*\("))


def rounded(lines: Sequence[str]) -> Optional[int]:
    """Return the line that adds a product, if it also rounds a number."""
    line = product(lines)
    casts = r"[(<]\s*(?:int|short|char|long|\w*int\d+_t)\s*[)>]|\b(?:l?rint|round|floor|trunc|ceil)f?\("
    return line if line and re.search(casts, lines[line - 1]) else None


def only(lines: Sequence[str], array: str) -> Optional[int]:
    """Return the line with an index of an array, such as a macro; None unless there is exactly one."""
    return single(matching(lines, rf"\b{array}\s*\[")) if array else None


def output_store(lines: Sequence[str]) -> Optional[int]:
    """Return the line that stores to the output; None unless there is exactly one."""
    names = _outputs(lines)
    return single([store.line for store in stores(lines) if store.name in names and store.target != store.name])


def start(lines: Sequence[str]) -> Optional[int]:
    """Return the line that gives the sum of the products its first value; None if it is not found."""
    at = product(lines)
    target = next((store.target for store in stores(lines) if store.line == at), "")
    if not at or not re.fullmatch(r"\w+", target):
        return None
    pattern = re.compile(rf"\b{target}\s*(?:=(?!=)|[({{]|;)")
    return next((number for number in range(at - 1, 0, -1) if pattern.search(lines[number - 1])), None)


def offset(lines: Sequence[str]) -> Optional[int]:
    """Return the line that gives the sum a first value other than zero, or else the one that stores the output."""
    at = start(lines)
    zero = at and re.search(r"(?:[=({]\s*[-+]?[0.]+f?|[({])\s*[;,)}]", lines[at - 1])
    return at if at and not zero else output_store(lines)


def stale(lines: Sequence[str]) -> Optional[int]:
    """Return the first addition to the output."""
    names = _outputs(lines)
    return next((store.line for store in stores(lines) if store.adds and store.name in names), None)


def unguarded(lines: Sequence[str]) -> Optional[int]:
    """Return the first addition to the output, unless it is atomic."""
    line = stale(lines)
    return line if line and not re.search(r"\batomic", lines[line - 1]) else None


def kept(lines: Sequence[str]) -> Optional[int]:
    """Return the first addition to a static or global variable, which keeps its value from call to call."""
    return next((store.line for store in stores(lines) if store.adds and _lasting(lines, store)), None)


def lasting(lines: Sequence[str]) -> Optional[int]:
    """Return the first static pointer, array or container, whose contents last from call to call."""
    pattern = r"^\s*static\s+(?!const|inline)[\w:<>,*&\s]*?[*>\s]\w+\s*(?:\[[^;]*\])?\s*(?:[={][^;]*)?;"
    return next((number for number in matching(lines, pattern) if re.search(r"[*<\[]", lines[number - 1])), None)


def threads(lines: Sequence[str]) -> Optional[int]:
    """Return the first line that detaches a thread, or the first that begins one."""
    begun = r"\bstd::(?:j?thread|async)\b|\bpthread_create\s*\("
    return next(iter(matching(lines, r"\bdetach\s*\(") or matching(lines, begun)), None)


def writable(lines: Sequence[str]) -> Optional[int]:
    """Return the only pointer to an input without const; None unless there is one."""
    inputs = "|".join(re.findall(r"\bconst\s+\w+\s*\*\s*(?:__restrict(?:__)?\s+)?(\w+)\s*[,)]", "\n".join(lines)))
    pattern = rf"(?:const_cast\s*<\s*\w+\s*\*\s*>|\(\s*\w+\s*\*\s*\))\s*\(?&?(?:{inputs})\b"
    return single(matching(lines, pattern)) if inputs else None


def not_reset(lines: Sequence[str]) -> Optional[int]:
    """Return the first addition to a sum that is set outside of the loops over the outputs, or is static."""
    everything = stores(lines)
    for store in everything:
        if store.adds and re.fullmatch(r"\w+", store.target):
            begun = [one.line for one in everything if one.target == store.target and not one.adds]
            declared = [number for number in range(1, store.line + 1) if _declaration([lines[number - 1]], store.name)]
            first = max([number for number in begun + declared if number <= store.line], default=None)
            between = "\n".join(lines[first - 1 : store.line]) if first else ""
            if first and (_lasting(lines, store) or len(re.findall(r"\bfor\s*\(", between)) >= _ALL_OUTPUTS):
                return store.line
    return None


def not_zeroed(lines: Sequence[str]) -> Optional[int]:
    """Return the first addition to a local array, or memory from malloc or new, to which nothing else is stored."""
    text, everything = "\n".join(lines), stores(lines)
    for store in everything:
        name = store.name
        heap = rf"\b{name}\s*=\s*(?:\([^()]*\)\s*)?(?:(?:std::)?malloc\s*\(|new\s+\w+\s*\[[^;]*\];)"
        fresh = re.search(rf"{heap}|\n[ \t]+(?:float|double)\s+{name}\s*\[[^;={{]*;", text)
        other = [one for one in everything if one.name == name and not one.adds and one.target != name]
        if store.adds and fresh and not other and not re.search(rf"\b(?:mem\w+|fill\w*)\s*\(\W*{name}\b", text):
            return store.line
    return None


def _lasting(lines: Sequence[str], store: LineStore) -> bool:
    declared = _declaration(lines[: store.line], store.name)
    return "static" in declared or bool(re.match(_TYPE, declared))  # declared at the beginning of a line: global


def _declaration(lines: Sequence[str], name: str) -> str:
    """Return the last line that declares a variable; "" if none does."""
    pattern = re.compile(rf"{_TYPE}[\s*&]*(?:__restrict(?:__)?\s+)?(?:\w+\s*,\s*)*\b{re.escape(name)}\s*[\[({{=;,]")
    return next((row for row in reversed(lines) if pattern.search(row)), "") if name else ""


def _outputs(lines: Sequence[str]) -> Set[str]:
    """Return the parameters that may be stored to, and the pointers and macros that are computed from them."""
    found = set(re.findall(_PARAMETER, "\n".join(lines), re.MULTILINE))
    macro = re.compile(r"\s*#\s*define\s+(\w+)(?:\([^)]*\))?\s+(.*)")
    pointer = re.compile(r"\*\s*(?:__restrict(?:__)?\s+)?(\w+)\s*=(?!=)\s*([^;]*)")
    for row in lines:
        for name, value in macro.findall(row) or pointer.findall(row):
            found |= {name} if found & set(re.findall(r"\w+", value)) else set()
    return found


def _target(text: str) -> str:
    """Return the left-hand side at the end of a text, such as `y[i * (n + 1)]`; "" if there is none."""
    at, depth = len(text.rstrip()), 0
    for at, character in reversed(list(enumerate(text.rstrip()))):
        depth += (character in "])") - (character in "[(")
        if depth < 0 or (depth == 0 and not re.match(r"[\w.*\[(>-]", character)):
            at += 1
            break
    return text[at:].strip()
