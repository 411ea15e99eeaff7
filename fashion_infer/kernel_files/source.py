"""Reading of C and C++ sources, and minimal parsing for recognising formats: finds functions by name."""

import codecs
import functools
import re
from typing import Dict, List, NamedTuple, Optional, Sequence

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
_INCLUDE = re.compile(rb"""^(?P<include>[ \t]*#[ \t]*include[ \t]*)["<](?P<path>[^">\n]{1,300})[">]""", re.MULTILINE)
_MOST, _LONGEST = 13, 30  # parameters, and characters of a name, in a message
_BODY = re.compile(r"\s*(?:noexcept\s*)?\{")


class Function(NamedTuple):
    name: str
    parameters: List[str]

    def __str__(self) -> str:
        names = [re.findall(r"\w+|$", re.sub(r"[\[=].*", "", each))[-2:][0][:_LONGEST] for each in self.parameters]
        return f"{self.name}({', '.join(names[:_MOST])}{', ...' if len(names) > _MOST else ''})"

    def called_in(self, signature: str) -> bool:
        return bool(re.search(rf"\b{re.escape(self.name)}(?:<[^>]*>)?\(", signature))


def utf16(data: bytes) -> Optional[str]:
    """Return the codec of a text in UTF-16, with or without a byte order mark; None for other texts."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    low, high = data[:256:2], data[1:256:2]
    if 2 * max(low.count(0), high.count(0)) <= len(high) or min(low.count(0), high.count(0)):
        return None
    return "utf-16-be" if low.count(0) else "utf-16-le"


def prepared(data: bytes) -> bytes:
    """Return a source that today's compilers read, line by line the same: UTF-8, LF, and CUDA headers by name."""
    codec = utf16(data)
    if codec:
        data = data.decode(codec, "replace").encode("utf-8", "replace")
    if data.count(b"\r") - data.count(b"\r\n") > data.count(b"\n"):
        data = data.replace(b"\r", b"\n")
    return _INCLUDE.sub(_without_folder_of_cuda, data)


def _without_folder_of_cuda(match) -> bytes:
    """Replace an absolute path, such as "/usr/local/cuda-8.0/include/cuda_runtime.h", by <cuda_runtime.h>."""
    parts = re.split(rb"[/\\]", match.group("path"))
    absolute = not parts[0] or parts[0].endswith(b":")
    if not absolute or b"include" not in parts or not any(part.lower().startswith(b"cuda") for part in parts):
        return match.group()
    return match.group("include") + b"<" + b"/".join(parts[parts.index(b"include") + 1 :]) + b">"


def text(data: bytes) -> str:
    """Decode a source as its compiler gets it."""
    return prepared(data).decode("utf-8-sig", "replace").replace("\r\n", "\n")


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


def likely_kernel(code: str, signatures: Sequence[str]) -> Optional[Function]:
    """Return the function of a stripped source that is most likely meant as the kernel; None if it has none."""
    found = [
        one._replace(name="".join(one.name.split()))
        for one in definitions(code, r"(?:\w{1,64}\s?::\s?)?\w{1,64}")
        if one.name not in ("if", "for", "while", "switch", "catch")
    ]

    def rank(one: Function):
        called = any(one.called_in(signature) for signature in signatures)
        return called, bool(re.search("conv|forward|sol", one.name.lower())), one.name != "main", len(one.parameters)

    return max(found, key=rank, default=None)


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
    starts, ends, depth = [0], [], 0
    for match in re.finditer(r"[()<>[\],]", parameters):
        depth += {"(": 1, "<": 1, "[": 1, ",": 0}.get(match.group(), -1)
        if match.group() == "," and depth == 0:
            ends.append(match.start())
            starts.append(match.end())
    found = [" ".join(parameters[start:end].split()) for start, end in zip(starts, [*ends, len(parameters)])]
    return [] if found == [""] or found == ["void"] else found
