"""The tables of tries as objects; see README.md for their form."""

import re
import shlex
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Tuple

FOLDER = Path(__file__).parent
_VARIABLE = re.compile(r"([A-Z][A-Z0-9_]*)=(.*)", re.DOTALL)
_REMOVED = re.compile(r"-([A-Z][A-Z0-9_]*)")


class Try(NamedTuple):
    """One command line of a table."""

    where: str  # "options.txt"
    exit: int
    arguments: Tuple[str, ...]  # after "fashion-infer"
    environment: Dict[str, Optional[str]]  # None: the variable is removed
    conditions: Tuple[str, ...]  # without the "@"
    cold: bool  # whether it needs a separate process


def read(path: Path) -> List[Try]:
    """The tries of one table."""
    tries, cold = [], False
    lines = re.sub(r"\n +", " ", path.read_text(encoding="utf-8")).splitlines()
    for line in filter(None, lines):
        if line == "# cold":
            cold = True
        elif not line.startswith("#"):
            code, bar, command = line.partition(" | ")
            if not bar:
                raise ValueError(f"{path.name}: not EXIT | COMMAND: {line}")
            tries += [_parse(path.name, int(code), each, cold) for each in _expanded(command)]
    return tries


def _expanded(command: str) -> List[str]:
    """The command once for each of its alternatives `<a;b>`."""
    found = re.search(r"<([^<>]+)>", command)
    if not found:
        return [command]
    start, end = command[: found.start()], command[found.end() :]
    return [each for one in found.group(1).split(";") for each in _expanded(start + one.strip() + end)]


def _parse(where: str, code: int, command: str, cold: bool) -> Try:
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
    return Try(where, code, tuple(words), environment, tuple(conditions), cold)


def filled(text: str, things: Path) -> str:
    """The text with `{NAME}` replaced by the path of that thing; braces around anything else stay."""
    import things as known

    return re.sub(r"\{([a-z0-9.-]+)\}", lambda found: known.path(things, found.group(1)), text)
