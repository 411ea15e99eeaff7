"""The output files of a command: checked before anything is measured, and written completely or not at all."""

import json
import os
from pathlib import Path
from typing import Any, Callable, Dict, Optional, Sequence, Type

from ..bench.records import BenchResult
from ..errors import FashionInferError, UsageError
from ..system import files
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


def save_benchmark(
    result: BenchResult,
    draw: Callable[[str, BenchResult], None],
    page: Callable[..., Page],
    as_json: Optional[str],
    plot: Optional[str],
    as_markdown: Optional[str],
) -> None:
    """Write a benchmark's result as JSON, chart and Markdown page, each if it has a name."""
    if as_json:
        write_json(as_json, result.as_dict())
    if plot:
        draw(plot, result)
    if as_markdown:
        names = (file and Path(file).name for file in (as_markdown, plot, as_json))
        write_page(as_markdown, page(result, *names))


def write_json(path: str, data: Dict[str, Any]) -> None:
    """Write a dictionary as JSON; raise DataError when the file cannot be written."""
    files.write(path, _lines(data) + "\n")


def write_page(path: str, page: Page) -> None:
    """Write a page as Markdown; raise DataError when the file cannot be written."""
    files.write(path, documents.markdown_page(page))


def _lines(value: Any, depth: int = 0) -> str:
    """Format a value as JSON in which only the outer four levels have line breaks, so a measurement is one line."""
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
