"""Reads the tables of tries; README.md describes their format."""

import re
import shlex
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Tuple

FOLDER = Path(__file__).parent
_VARIABLE = re.compile(r"([A-Z][A-Z0-9_]*)=(.*)", re.DOTALL)
_REMOVED = re.compile(r"-([A-Z][A-Z0-9_]*)")


class Try(NamedTuple):
    """One command line of a table, with the exit code that the program must return."""

    where: str  # the table's file name
    exit: int
    arguments: Tuple[str, ...]  # the words after "fashion-infer"
    environment: Dict[str, Optional[str]]  # variables to set, or to remove if the value is None
    conditions: Tuple[str, ...]  # NAME or NAME=VALUE, without the "@"
    cold: bool  # whether the try must run in a new process


def read(path: Path) -> List[Try]:
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
    """Return the command lines that result from choosing each of the alternatives `<a;b>`."""
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
    """Return the text with each `{name}` in lower case replaced by the path of the thing with this name."""
    import things as known

    return re.sub(r"\{([a-z0-9.-]+)\}", lambda found: known.path(things, found.group(1)), text)
