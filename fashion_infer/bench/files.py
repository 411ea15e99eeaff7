"""The files that a benchmark leaves: JSON, chart, page."""

import json
from pathlib import Path
from typing import Optional

from .. import plots
from .._files import replacing
from ..errors import DataError, UsageError
from . import chart, page
from .rows import Result


def check(*paths: Optional[str], plot: Optional[str] = None) -> None:
    """Raise UsageError where a file could not be written, before minutes of measuring are spent on it."""
    plots.check_path(plot)
    for path in (*paths, plot):
        if path and (Path(path).is_dir() or not Path(path).absolute().parent.is_dir()):
            raise UsageError(f"cannot write {path}: it is a folder, or its folder does not exist")


def save(result: Result, as_json: Optional[str], plot: Optional[str], markdown: Optional[str]) -> None:
    """Write those that have a name; DataError where one cannot be written."""
    if as_json:
        with replacing(as_json, DataError) as temporary:
            Path(temporary).write_text(json.dumps(result.as_dict(), indent=1) + "\n", encoding="utf-8")
    if plot:
        chart.draw(plot, result)
    if markdown:
        page.write(markdown, result, plot, as_json)
