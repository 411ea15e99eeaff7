"""Minimal C and C++ parsing for recognising formats: strips comments and strings, and finds functions by name."""

import functools
import re
from typing import Dict, List, NamedTuple

_TOKEN = re.compile(
    r"""
      //[^\n\\]*(?:\\.[^\n\\]*)*                              # a comment to the end of the line
    | /\*.*?(?:\*/|\Z)
    | R"(?P<delimiter>[^()\\\s]{0,16})\(.*?\)(?P=delimiter)"   # a raw string
    | (?P<linkage>extern\s*"C")
    | "[^"\\\n]*(?:\\.[^"\\\n]*)*"
    | (?<![0-9A-Za-z_])'[^'\\\n]*(?:\\.[^'\\\n]*)*'                # a character, not the ' in 10'000
    """,
    re.DOTALL | re.VERBOSE,
)
_BODY = re.compile(r"\s*(?:noexcept\s*)?\{")


class Function(NamedTuple):
    """A function that the source defines, with the text of each parameter."""

    name: str
    parameters: List[str]


def stripped(text: str) -> str:
    """Replace each comment in a source by a space, and each string by "". Keep extern "C"."""

    def replacement(match):
        if match.group("linkage"):
            return 'extern "C"'
        return " " if match.group().startswith("/") else '""'

    return _TOKEN.sub(replacement, text.replace("\\\n", ""))


def definitions(code: str, name: str) -> List[Function]:
    """Find the functions that a stripped source defines under a name, a regular expression. Prototypes do not count."""
    found: List[Function] = []
    past = 0  # skips nested matches, which would make this quadratic
    for match in re.finditer(rf"(?<![\w.>])(?:{name})\s*\(", code):
        end = _closed(code).get(match.end())
        if end and match.start() >= past and _BODY.match(code, end):
            past = end
            inside = code[match.end() : end - 1]
            found.append(Function(match.group()[:-1].strip(), _split(inside)))
    return found


@functools.lru_cache(maxsize=2)
def _closed(code: str) -> Dict[int, int]:
    """Map the index after each opening parenthesis to the index after its closing one, in one pass."""
    found, waiting = {}, []
    for match in re.finditer(r"[()]", code):
        if match.group() == "(":
            waiting.append(match.end())
        elif waiting:
            found[waiting.pop()] = match.end()
    return found


def _split(parameters: str) -> List[str]:
    """Split parameters at commas outside brackets."""
    starts, ends, depth = [0], [], 0
    for match in re.finditer(r"[()<>[\],]", parameters):
        depth += {"(": 1, "<": 1, "[": 1, ",": 0}.get(match.group(), -1)
        if match.group() == "," and depth == 0:
            ends.append(match.start())
            starts.append(match.end())
    found = [" ".join(parameters[start:end].split()) for start, end in zip(starts, [*ends, len(parameters)])]
    return [] if found == [""] or found == ["void"] else found
