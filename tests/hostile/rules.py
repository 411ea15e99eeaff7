"""The rules that every try must follow."""

import re
from typing import List, NamedTuple

MEMORY = 1 << 30  # memory limit of a try, in bytes
SECONDS = 20.0  # time limit of a try, which allows for busy cores
# Control characters, except tabs, newlines and the carriage returns of progress bars.
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_OURS = ("fashion-infer: ", "report: ")


class Ending(NamedTuple):
    """How a try ended: exit code, output, and what it left."""

    code: int  # exit code; -N if signal N ended the try
    out: str
    err: str
    seconds: float
    rss: int  # peak memory in bytes
    late: bool  # whether the try exceeded its time limit and was killed
    left: bool  # whether the try left a running process
    files: List[str]  # files that the try left or changed, except those that its command names


def broken(attempt, ending: Ending) -> List[str]:
    """Return the rules that the try broke; one of them is the exit code that the table expects."""
    lines = [line for line in ending.err.splitlines() if line.strip()]
    wrong = {
        "it did not end in time": ending.late,
        f"it was ended by signal {-ending.code}": ending.code < 0 and not ending.late,
        f"exit code {ending.code}, not {attempt.exit}": ending.code >= 0 and ending.code != attempt.exit,
        "a traceback": "Traceback" in ending.err,
        "a mistake of the program's": ending.code == 70,
        "not one line on stderr": _speaks(attempt, ending) and len(lines) != 1,
        "a line on stderr that is not ours": any(not line.startswith(_OURS) for line in lines),
        "a control character": _CONTROL.search(ending.out + ending.err) is not None,
        f"{ending.seconds:.1f} s": ending.seconds > SECONDS,
        f"{ending.rss >> 20} MB": ending.rss > MEMORY,
        "a process was left": ending.left,
        f"left behind or changed: {ending.files}": bool(ending.files),
    }
    return [what for what, is_so in wrong.items() if is_so]


def _speaks(attempt, ending):
    """Return whether one line on stderr is required: the try failed, and its stderr can be written."""
    return ending.code not in (0, 141) and not any(each.endswith("=2") for each in attempt.conditions)
