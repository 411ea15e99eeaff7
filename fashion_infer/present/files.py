"""The files that a command leaves, checked before anything is measured, and written whole or not at all."""

import json
import os
from pathlib import Path
from typing import Callable, Optional

from ..errors import DataError, UsageError
from ..files import replacing
from ..measure.records import Result
from .charts.figure import check_path
from .content import Page
from .render import markdown


def check(*paths: Optional[str], plot: Optional[str] = None) -> None:
    """Raise UsageError where a file could not be written, or two files are to be one."""
    check_path(plot)
    named = [path for path in (*paths, plot) if path]
    for path in named:
        folder = Path(path).absolute().parent
        if Path(path).is_dir() or not folder.is_dir():
            raise UsageError(f"cannot write {path}: it is a folder, or its folder does not exist")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise UsageError(f"cannot write {path}: its folder is not writable")
    real = [os.path.realpath(path) for path in named]
    for path, place in zip(named, real):
        if real.count(place) > 1:
            raise UsageError(f"{path} is to be two files: give each a name of its own")


def save_benchmark(
    result: Result,
    draw: Callable[[str, Result], None],
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
        write(as_json, json.dumps(result.as_dict(), indent=1) + "\n")
    if plot:
        draw(plot, result)
    if as_markdown:
        names = (file and Path(file).name for file in (as_markdown, plot, as_json))
        write(as_markdown, markdown.page(page(result, *names)))


def write(path: str, text: str) -> None:
    """Write a text; DataError when the file cannot be written."""
    with replacing(path, DataError) as temporary:
        Path(temporary).write_text(text, encoding="utf-8")
