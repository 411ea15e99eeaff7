"""Benchmarks that you saved by name: JSON files in your data folder, oldest first."""

import re
from pathlib import Path
from typing import List

import platformdirs

from ..errors import DataError, UsageError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def folder() -> Path:
    """Return the folder of saved benchmarks. The environment variable XDG_DATA_HOME sets its parent folder."""
    return Path(platformdirs.user_data_dir("fashion-infer")) / "benchmarks"


def path(name: str) -> Path:
    """Return the path for a benchmark's name, whether it exists or not; UsageError for an invalid name."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"'{name}' is not a valid name: use letters, digits, dots, hyphens and underscores")
    return folder() / f"{name}.json"


def new(name: str) -> Path:
    """Create the folder of saved benchmarks, and return the path for a name in it; DataError if that fails."""
    file = path(name)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"cannot save in {file.parent}: {error.strerror}: set XDG_DATA_HOME to a folder") from None
    return file


def find(name: str) -> Path:
    """Return the path of a saved benchmark; UsageError if none has that name."""
    file = path(name)
    if not file.is_file():
        known = ", ".join(each.stem for each in saved()) or "none"
        raise UsageError(f"no benchmark is saved as '{name}'; saved: {known}")
    return file


def saved() -> List[Path]:
    """Return the paths of all saved benchmarks, oldest first."""
    try:
        return sorted(folder().glob("*.json"), key=lambda file: (file.stat().st_mtime_ns, file.name))
    except OSError:
        return []


def last(count: int) -> List[Path]:
    """Return the paths of the `count` latest saved benchmarks, oldest first; UsageError if fewer are saved."""
    found = saved()[-count:]
    if len(found) < count:
        raise UsageError(f"--last needs {count} saved benchmarks, there are {len(found)}: run `bench conv --save NAME`")
    return found
