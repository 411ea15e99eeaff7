"""Text from outside as it may be shown: on one line, and with nothing in it that a terminal would obey."""

import unicodedata

_LONGEST = 60  # characters of an excerpt
# Control characters, separators of lines and paragraphs, and what stands for bytes that are no UTF-8.
_CONTROL = {"Cc", "Zl", "Zp", "Cs"}
# Besides: what changes the direction of writing, or is invisible. Names may have it: some scripts need it.
_UNSHOWN = {*_CONTROL, "Cf"}


def printable(text: str) -> bool:
    """Whether no character of it can end a line or steer a terminal."""
    return (text.isascii() and text.isprintable()) or not any(unicodedata.category(c) in _CONTROL for c in text)


def shown(text: str) -> str:
    r"""The text with what is not to be seen written as an escape: a newline as `\n`, ESC as `\x1b`.

    A byte of a path that is no UTF-8 is `\xff`, as Python's own escapes have it. All other text stays as it is.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escaped(c) if unicodedata.category(c) in _UNSHOWN else c for c in text)


def excerpt(text: object) -> str:
    """What a message shows of something from a file: `shown`, of at most 60 characters."""
    text = str(text)
    return shown(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}...")


def _escaped(character: str) -> str:
    number = ord(character)
    if 0xDC80 <= number <= 0xDCFF:  # Python's stand-in for a byte that could not be decoded
        return f"\\x{number - 0xDC00:02x}"
    return character.encode("unicode_escape", "backslashreplace").decode()
