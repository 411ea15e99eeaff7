"""Safe display of untrusted text: on one line, without terminal control characters. Also JSON as text."""

import json
import unicodedata
from typing import Any

_LONGEST = 60  # largest number of characters of an excerpt, before escapes
# Control characters, separators of lines and paragraphs, and surrogates for bytes that are not UTF-8.
_CONTROL = {"Cc", "Zl", "Zp", "Cs"}
# `shown` also escapes characters that change the direction of writing, or are invisible. `printable` allows them,
# because some scripts need them.
_UNSHOWN = {*_CONTROL, "Cf"}


def printable(text: str) -> bool:
    return (text.isascii() and text.isprintable()) or not any(unicodedata.category(c) in _CONTROL for c in text)


def shown(text: str) -> str:
    r"""Replace special characters by escapes: a newline by `\n`, ESC by `\x1b`, a byte that is not UTF-8 by `\xff`."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escaped(c) if unicodedata.category(c) in _UNSHOWN else c for c in text)


def one_line(error: BaseException) -> str:
    """Return an error's message on one line; the name of its class if it has none."""
    return " ".join(str(error).split()) or type(error).__name__


def excerpt(text: object) -> str:
    """Return an excerpt of a value from a file, for a message: its first 60 characters, escaped by `shown`."""
    text = str(text)
    return shown(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}...")


def json_text(value: Any) -> str:
    return _lines(json.loads(json.dumps(value), parse_constant=lambda name: None))


def _lines(value: Any, depth: int = 0) -> str:
    """Format a value as JSON in which only the outer four levels have line breaks."""
    if depth == 4 or not value or not isinstance(value, (dict, list)):
        return json.dumps(value, separators=(",", ":"))
    inside = "\n" + " " * (depth + 1)
    if isinstance(value, dict):
        parts = [f"{json.dumps(name)}: {_lines(each, depth + 1)}" for name, each in value.items()]
        return "{" + inside + f",{inside}".join(parts) + inside[:-1] + "}"
    if not any(isinstance(each, (dict, list)) for each in value):
        return json.dumps(value, separators=(",", ":"))
    return "[" + inside + f",{inside}".join(_lines(each, depth + 1) for each in value) + inside[:-1] + "]"


def _escaped(character: str) -> str:
    number = ord(character)
    if 0xDC80 <= number <= 0xDCFF:  # Python's surrogate for a byte that could not be decoded
        return f"\\x{number - 0xDC00:02x}"
    return character.encode("unicode_escape", "backslashreplace").decode()
