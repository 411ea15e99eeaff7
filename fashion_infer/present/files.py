"""The output files of a command: checked before anything is measured, and written completely or not at all."""

import csv
import io
import os
from typing import Any, Dict, Optional, Sequence, Type

from ..bench.records import BenchResult
from ..errors import FashionInferError, UsageError
from ..system import files
from ..system.text import json_text
from .charts.figure import check_path
from .content import Page
from .render import documents


def check(
    *paths: Optional[str],
    pictures: Sequence[Optional[str]] = (),
    inputs: Sequence[str] = (),
    error: Type[FashionInferError] = UsageError,
) -> None:
    """Raise `error` if an output cannot be written, UsageError if it is an input, named twice, or no picture."""
    for path in pictures:
        check_path(path)
    named = [path for path in (*paths, *pictures) if path]
    for path in named:
        files.check(path, error)
    real = [os.path.realpath(path) for path in named]
    read = {os.path.realpath(path) for path in inputs}
    for path, place in zip(named, real):
        if real.count(place) > 1:
            raise UsageError(f"{path} is named for two outputs: choose a different name for each")
        if place in read:
            raise UsageError(f"{path} is an input and would be overwritten: choose another name for the output")


def write_json(path: str, data: Dict[str, Any]) -> None:
    files.write(path, json_text(data) + "\n")


def write_csv(path: str, result: BenchResult) -> None:
    listed = ("samples_ms", "faster_than", "findings")
    rows = [
        {
            **{name: getattr(case, name) for name in ("edition", "number", "where", "batch")},
            **{name: value for name, value in vars(row).items() if name not in listed},
        }
        for case in result.cases
        for row in case.rows
    ]
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else ["edition"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    files.write(path, text.getvalue())


def write_page(path: str, page: Page) -> None:
    files.write(path, documents.markdown_page(page))
