"""The files that a benchmark leaves: JSON, chart, page."""

import json
import os
from pathlib import Path
from typing import Callable, Optional

from ..errors import DataError, UsageError
from ..files import replacing
from ..present import plots


def check(*paths: Optional[str], plot: Optional[str] = None) -> None:
    """Raise UsageError where a file could not be written, or not two, before minutes of measuring are spent on it."""
    plots.check_path(plot)
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


def save(
    result, draw: Callable, page: Callable, as_json: Optional[str], plot: Optional[str], markdown: Optional[str]
) -> None:
    """Write those that have a name.

    Parameters
    ----------
    result
        The benchmark; its `as_dict()` is the JSON.
    draw
        draw(path, result) writes the chart.
    page
        page(result, name, plot, as_json) is the page's text. The names are those of the page itself, of the chart that
        it shows and of the JSON, without their folders: they lie side by side.

    Raises
    ------
    DataError
        When a file cannot be written.
    """
    if as_json:
        _write(as_json, json.dumps(result.as_dict(), indent=1) + "\n")
    if plot:
        draw(plot, result)
    if markdown:
        _write(markdown, page(result, *(file and Path(file).name for file in (markdown, plot, as_json))))


def _write(path, text):
    with replacing(path, DataError) as temporary:
        Path(temporary).write_text(text, encoding="utf-8")
