"""Makes a whole report: measures, draws the pictures, and writes the folder."""

import json
from pathlib import Path
from typing import Tuple

from ..present.report import pages
from . import folder, gather
from .request import ReportRequest


def make(
    out: str, request: ReportRequest, tick: gather.Tick = lambda share, what: None
) -> Tuple[Path, gather.Measured]:
    """Make a report, and return the path of its page and the measurements.

    The folder `out` must be new, empty, or contain an earlier report, which the complete new report replaces. No files
    are left behind by an error.
    """
    path = folder.check(out)
    measured = gather.measure(request, tick)
    gather.within(tick, "pages")
    with folder.replacing(path) as new:
        page = pages.write(new, measured, out)
        for run in measured.runs:
            _write(new / f"run-{run.mode}.json", run.as_dict())
        for result in filter(None, (measured.convolutions, measured.networks)):
            _write(new / f"bench-{result.benchmark}.json", result.as_dict())
    return path / page, measured


def _write(path, content):
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
