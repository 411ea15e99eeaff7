"""Benchmarks that the user saved by name: JSON files in the user's data folder, the last ones known by their times."""

import re
from pathlib import Path
from typing import List

import platformdirs

from ..errors import DataError, UsageError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def folder() -> Path:
    """The folder of saved benchmarks (XDG_DATA_HOME moves it)."""
    return Path(platformdirs.user_data_dir("fashion-infer")) / "benchmarks"


def path(name: str) -> Path:
    """The file of a saved benchmark, whether it exists or not; UsageError for a name that is none."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"'{name}' is no name to save under: letters, digits, dots, hyphens and underscores")
    return folder() / f"{name}.json"


def new(name: str) -> Path:
    """The file to save a benchmark in; its folder exists after this. DataError when that cannot be made."""
    file = path(name)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"cannot save in {file.parent}: {error.strerror}: set XDG_DATA_HOME to a folder") from None
    return file


def find(name: str) -> Path:
    """The file of a saved benchmark; UsageError where none has that name."""
    file = path(name)
    if not file.is_file():
        known = ", ".join(each.stem for each in saved()) or "none"
        raise UsageError(f"no benchmark is saved as '{name}'; saved: {known}")
    return file


def saved() -> List[Path]:
    """All saved benchmarks, the oldest first."""
    try:
        return sorted(folder().glob("*.json"), key=lambda file: (file.stat().st_mtime_ns, file.name))
    except OSError:
        return []


def last(count: int) -> List[Path]:
    """The benchmarks saved last, the oldest of them first; UsageError where fewer are saved."""
    found = saved()[-count:]
    if len(found) < count:
        raise UsageError(f"--last needs {count} saved benchmarks and there are {len(found)}: `bench conv --save NAME`")
    return found
