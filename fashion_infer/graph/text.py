"""Text from a file, made fit for a message: one short line, whatever it holds."""

import unicodedata

_LONGEST = 60
# Control characters, lone halves of a surrogate pair, line and paragraph separators.
_UNPRINTABLE = ("Cc", "Cs", "Zl", "Zp")


def printable(text: str) -> bool:
    """Whether no character of it can end a line or steer a terminal."""
    return (text.isascii() and text.isprintable()) or not any(unicodedata.category(c) in _UNPRINTABLE for c in text)


def shown(text: object) -> str:
    """What a message shows of a text: control characters escaped, and at most 60 characters."""
    text = str(text)
    cut = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
    return "".join(c if printable(c) else c.encode("unicode_escape").decode() for c in cut)
