"""The tables of tries as objects; see README.md for their form."""

import re
import shlex
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Tuple

FOLDER = Path(__file__).parent
_VARIABLE = re.compile(r"([A-Z][A-Z0-9_]*)=(.*)", re.DOTALL)
_REMOVED = re.compile(r"-([A-Z][A-Z0-9_]*)")


class Try(NamedTuple):
    """One line of a table."""

    where: str  # "options.txt:12"
    exit: int
    arguments: Tuple[str, ...]  # behind "fashion-infer"
    environment: Dict[str, Optional[str]]  # None: the variable is removed
    conditions: Tuple[str, ...]  # without the "@"
    cold: bool  # whether only a process of its own can show it


def read(path: Path) -> List[Try]:
    """The tries of one table."""
    tries, cold = [], False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.strip() == "# cold":
            cold = True
        if line.strip() and not line.startswith("#"):
            tries.append(_parse(line, f"{path.name}:{number}", cold))
    return tries


def _parse(line: str, where: str, cold: bool) -> Try:
    code, bar, command = line.partition(" | ")
    if not bar:
        raise ValueError(f"{where}: not EXIT | COMMAND")
    environment, conditions, words = {}, [], shlex.split(command)
    while words:
        variable, removed = _VARIABLE.fullmatch(words[0]), _REMOVED.fullmatch(words[0])
        if variable:
            environment[variable.group(1)] = variable.group(2)
        elif removed:
            environment[removed.group(1)] = None
        elif words[0].startswith("@"):
            conditions.append(words[0][1:])
        else:
            break
        del words[0]
    return Try(where, int(code), tuple(words), environment, tuple(conditions), cold)


def filled(text: str, things: Path) -> str:
    """The text with `{NAME}` replaced by the path of that thing; braces around anything else stay."""
    import things as known

    return re.sub(r"\{([a-z0-9.-]+)\}", lambda found: known.path(things, found.group(1)), text)
