"""Text from outside as it may be shown: on one line, and with nothing in it that a terminal would obey."""

import unicodedata

# Control characters, characters that change the direction of writing or are invisible, separators of lines and
# paragraphs, and what stands for bytes that are no UTF-8.
_UNSHOWN = {"Cc", "Cf", "Zl", "Zp", "Cs"}


def shown(text: str) -> str:
    r"""The text with what is not to be seen written as an escape: a newline as `\n`, ESC as `\x1b`.

    A byte of a path that is no UTF-8 is `\xff`, as Python's own escapes have it. All other text stays as it is.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escaped(c) if unicodedata.category(c) in _UNSHOWN else c for c in text)


def _escaped(character: str) -> str:
    number = ord(character)
    if 0xDC80 <= number <= 0xDCFF:  # Python's stand-in for a byte that could not be decoded
        return f"\\x{number - 0xDC00:02x}"
    return character.encode("unicode_escape", "backslashreplace").decode()
