"""Verdicts as files: a folder for each submission."""

import contextlib
import re
from pathlib import Path
from typing import Iterator, Sequence, Set

from ..errors import DataError, UsageError
from ..system.files import replacing_together
from ..system.temporary import folder_made
from .formats import FORMATS
from .verdict import GradeVerdict


def written(verdict: GradeVerdict, form: str) -> str:
    """A verdict in a format of `formats.FORMATS`, with a line's end."""
    return FORMATS[form].write(verdict).rstrip("\n") + "\n"


class Folder:
    """Where results go: of one submission right there, of several in a folder each, under its name.

    Parameters
    ----------
    path
        The folder.
    sources
        The submissions as they were named.
    """

    def __init__(self, path: str, sources: Sequence[str]):
        self._path = Path(path)
        self._several = len(sources) > 1
        self._taken: Set[str] = set()

    @classmethod
    @contextlib.contextmanager
    def made(cls, path: str, sources: Sequence[str]) -> Iterator["Folder"]:
        """The folder, made if need be, and gone again if nothing was saved in it; UsageError when it cannot be."""
        with contextlib.ExitStack() as undo:
            try:
                undo.enter_context(folder_made(path))
            except OSError as error:
                raise UsageError(f"cannot make the folder {path}: {error.strerror}") from None
            yield cls(path, sources)

    def save(self, verdict: GradeVerdict, form: str) -> None:
        """Write the verdict's document, and the format's file beside it: both, or neither and DataError."""
        folder = self._path / self._name(verdict) if self._several else self._path
        names = list(dict.fromkeys(("json", form)))
        files = [folder / FORMATS[name].file for name in names]
        try:
            with folder_made(folder), replacing_together(files, DataError) as temporaries:
                for name, temporary in zip(names, temporaries):
                    Path(temporary).write_text(written(verdict, name), encoding="utf-8")
        except OSError as error:
            raise DataError(f"cannot make the folder {folder}: {error.strerror}") from None

    def _name(self, verdict: GradeVerdict) -> str:
        stem = re.sub(r"[^\w.-]", "_", verdict.name).lstrip(".") or "submission"
        name, number = stem, 2
        while name in self._taken:
            name, number = f"{stem}-{number}", number + 1
        self._taken.add(name)
        return name
