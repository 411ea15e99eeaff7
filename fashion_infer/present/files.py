"""The files that a command leaves, checked before anything is measured, and written whole or not at all."""

import json
import os
from pathlib import Path
from typing import Any, Callable, Dict, Optional, Sequence, Type

from ..bench.records import BenchResult
from ..errors import FashionInferError, UsageError
from ..system import files
from .charts.figure import check_path
from .content import Page
from .render import markdown


def check(
    *paths: Optional[str],
    pictures: Sequence[Optional[str]] = (),
    inputs: Sequence[str] = (),
    error: Type[FashionInferError] = UsageError,
) -> None:
    """Check the names of all files that a command is to write; those that are None are passed over.

    Parameters
    ----------
    paths, pictures
        What is to be written; a picture's name must end in .png.
    inputs
        What the command reads, and must not overwrite.
    error
        Raised where a file could not be written.

    Raises
    ------
    UsageError
        For a picture of another name, or where two of the files are one.
    """
    for path in pictures:
        check_path(path)
    named = [path for path in (*paths, *pictures) if path]
    for path in named:
        files.check(path, error)
    real = [os.path.realpath(path) for path in named]
    read = {os.path.realpath(path) for path in inputs}
    for path, place in zip(named, real):
        if real.count(place) > 1:
            raise UsageError(f"{path} is to be two files: give each a name of its own")
        if place in read:
            raise UsageError(f"{path} is an input and would be overwritten: choose another name for the output")


def save_benchmark(
    result: BenchResult,
    draw: Callable[[str, BenchResult], None],
    page: Callable[..., Page],
    as_json: Optional[str],
    plot: Optional[str],
    as_markdown: Optional[str],
) -> None:
    """Write those files of a benchmark that have a name.

    Parameters
    ----------
    result
        The benchmark; its `as_dict()` is the JSON.
    draw
        draw(path, result) writes the chart.
    page
        page(result, name, plot, as_json) is the page. The names are those of the page itself, of the chart that
        it shows and of the JSON, without their folders: they lie side by side.

    Raises
    ------
    DataError
        When a file cannot be written.
    """
    if as_json:
        write_json(as_json, result.as_dict())
    if plot:
        draw(plot, result)
    if as_markdown:
        names = (file and Path(file).name for file in (as_markdown, plot, as_json))
        write_page(as_markdown, page(result, *names))


def write_json(path: str, data: Dict[str, Any]) -> None:
    """Write a benchmark's dictionary as JSON; DataError when the file cannot be written."""
    files.write(path, _lines(data) + "\n")


def write_page(path: str, page: Page) -> None:
    """Write a page as Markdown; DataError when the file cannot be written."""
    files.write(path, markdown.page(page))


def _lines(value: Any, depth: int = 0) -> str:
    """JSON with one line per measurement, four levels deep: one line per number would be most of the file."""
    if depth == 4 or not value or not isinstance(value, (dict, list)):
        return _compact(value)
    inside = "\n" + " " * (depth + 1)
    if isinstance(value, dict):
        parts = [f"{json.dumps(name)}: {_lines(each, depth + 1)}" for name, each in value.items()]
        return "{" + inside + f",{inside}".join(parts) + inside[:-1] + "}"
    if not any(isinstance(each, (dict, list)) for each in value):
        return _compact(value)
    return "[" + inside + f",{inside}".join(_lines(each, depth + 1) for each in value) + inside[:-1] + "]"


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
