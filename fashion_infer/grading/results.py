"""Writes verdicts as files, and a table of all marks."""

import contextlib
import csv
import json
import os
import re
import shlex
from pathlib import Path
from typing import Any, Dict, Iterator, Optional, Sequence, Tuple

from ..errors import DataError, UsageError
from ..system import inputs
from ..system.files import folder_made, replacing_together
from . import verdict
from .formats import FORMATS
from .rubric import Rubric
from .verdict import FAILED, GradeVerdict

_SUMMARY = "marks.csv"  # name of the table of all marks
_LONGEST = 240  # largest number of bytes of a subfolder's name, before a number


def written(found: GradeVerdict, form: str) -> str:
    return FORMATS[form].write(found).rstrip("\n") + "\n"


class Folder:
    def __init__(self, path: str, sources: Sequence[str]):
        self._path = Path(path)
        self._several = len(sources) > 1
        self._names = _names(sources)

    @classmethod
    @contextlib.contextmanager
    def made(cls, path: str, sources: Sequence[str]) -> Iterator["Folder"]:
        with contextlib.ExitStack() as undo:
            try:
                undo.enter_context(folder_made(path))
            except OSError as error:
                raise UsageError(f"cannot create the folder {path}: {error.strerror}") from None
            yield cls(path, sources)

    def kept(self, identities: Dict[str, Tuple[str, str, str]], asked: Rubric) -> Dict[str, Dict[str, Any]]:
        """Return the saved documents of submissions that were judged by the same rubric and have not changed since.
        `identities` has the digest, kernel file and format of each source, from `grade.identities`."""
        found = {}
        for source, identity in identities.items():
            document = _document(self._path / self._names[source] / FORMATS["json"].file, source, asked)
            if document and tuple(document["submission"][key] for key in ("sha256", "kernel", "format")) == identity:
                found[source] = document
        return found

    def summary(self, documents: Sequence[Dict[str, Any]]) -> Path:
        """Write marks.csv with one row per submission; return its path. A submission that this machine could not judge
        has no points, so that nobody takes zero points for a mark."""
        path = self._path / _SUMMARY
        checks = list(dict.fromkeys(mark["name"] for one in documents for mark in one["marks"]))
        with replacing_together([path], DataError) as (temporary,), open(temporary, "w", newline="") as file:
            rows = csv.writer(file, lineterminator="\n")
            rows.writerow(["submission", "status", "ranked", "points", "out_of", "op_time_ms", *checks, "reason"])
            for one in documents:
                judged = one["status"] != FAILED
                lost = dict.fromkeys(mark["message"] for mark in one["marks"] if not mark["passed"])
                points = {mark["name"]: f"{mark['points']:g}" for mark in one["marks"] if judged}
                time = one["op_time_ms"]
                rows.writerow(
                    [
                        _cell(one["submission"]["name"]),
                        one["status"],
                        int(one["ranked"]),
                        f"{one['points']:g}" if judged else "",
                        f"{one['out_of']:g}",
                        "" if time is None else f"{time:.6f}",
                        *(points.get(name, "") for name in checks),
                        _cell(one["reason"] or "; ".join(lost) or "It earned all points."),
                    ]
                )
        return path

    def file(self, form: str) -> Path:
        return self._path / FORMATS[form].file

    def save(self, found: GradeVerdict, form: str) -> None:
        folder = self._path / self._names[found.source] if self._several else self._path
        names = list(dict.fromkeys(("json", form)))
        files = [folder / FORMATS[name].file for name in names]
        try:
            with folder_made(folder), replacing_together(files, DataError) as temporaries:
                for name, temporary in zip(names, temporaries):
                    Path(temporary).write_text(written(found, name), encoding="utf-8")
        except OSError as error:
            raise DataError(f"cannot create the folder {folder}: {error.strerror}") from None


def _names(sources: Sequence[str]) -> Dict[str, str]:
    """Return the name of each source's subfolder, by the source's path as verdicts have it; UsageError if reserved. No
    name begins with a period, which hides a folder, or with a hyphen, which programs take for an option, or is so long
    that a number could not follow."""
    found: Dict[str, str] = {}
    for source in sources:
        name = os.fsencode(Path(source).resolve().name).decode(errors="replace")
        stem = re.sub(r"[^\w.-]", "_", name).lstrip(".-").encode()[:_LONGEST].decode(errors="ignore") or "submission"
        if stem.lower() == _SUMMARY and len(sources) > 1:
            raise UsageError(f"{shlex.quote(source)} has the name of the table of all marks: rename it")
        name, number = stem, 2
        while name in found.values():
            name, number = f"{stem}-{number}", number + 1
        found.setdefault(str(Path(source)), name)
    return found


def _document(path: Path, source: str, asked: Rubric) -> Optional[Dict[str, Any]]:
    """Return the document of a saved verdict on a source, if it was judged or refused by this rubric. Return None for
    any other file, and if the machine could not judge the submission."""
    try:
        found = json.loads(inputs.read(path, verdict.LARGEST, DataError))
        again = verdict.read(str(path))
        if again.source != source or again.rubric._replace(backend=asked.backend) != asked:
            return None
        return found if found["status"] in (verdict.JUDGED, verdict.REFUSED) else None
    except (DataError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _cell(text: str) -> str:
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text
