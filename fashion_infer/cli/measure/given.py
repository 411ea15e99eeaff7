"""What options of a benchmark were given, and what lists of numbers mean."""

from ...errors import UsageError


def refuse(given, why):
    """UsageError when any of these options is given."""
    found = [f"--{name}" for name, value in given.items() if value or (value == 0 and value is not False)]
    if found:
        raise UsageError(f"{why} {', '.join(found)}")


def numbers(option, words):
    """Whole numbers, given with commas between them or by repeating the option."""
    try:
        return [int(word) for part in words for word in part.split(",")]
    except ValueError:
        raise UsageError(f"{option} takes whole numbers with commas between them, not {','.join(words)}") from None
