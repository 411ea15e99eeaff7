"""Handles paths that users write: `~`, `~name`, and home or working folders that may not exist."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Optional, Union

import platformdirs

from ..errors import DataError, UsageError

if TYPE_CHECKING:
    PathOrText = Union[str, os.PathLike[str]]
else:
    PathOrText = Union[str, os.PathLike]  # not generic in Python 3.8


def expanded(path: PathOrText) -> Path:
    try:
        return Path(path).expanduser()
    except (RuntimeError, KeyError):
        who = Path(path).parts[0]
        raise UsageError(f"{path}: {who} is not a user with a home here: write the full path, or set HOME") from None


def working_folder() -> Optional[Path]:
    try:
        return Path.cwd()
    except FileNotFoundError:
        return None


def cache() -> Optional[Path]:
    """Return this program's folder in the user's cache (in XDG_CACHE_HOME, if set); None for a user without a home."""
    try:
        folder = platformdirs.user_cache_path("fashion-infer")
    except RuntimeError:  # platformdirs 4.14 and later; earlier ones leave `~` unchanged
        return None
    return folder if folder.is_absolute() else None


def needed_cache() -> Path:
    folder = cache()
    if folder is None:
        raise DataError("this user has no home, and so no cache: set HOME, or XDG_CACHE_HOME to a folder")
    return folder
