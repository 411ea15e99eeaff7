"""Measure, draw, write: a whole report into its folder."""

import json
from pathlib import Path
from typing import Tuple

from ..present.report import pages
from . import folder, gather
from .request import ReportRequest


def make(
    out: str, request: ReportRequest, tick: gather.Tick = lambda share, what: None
) -> Tuple[Path, gather.Measured]:
    """Make a report: index.html, report.md with its pictures, and JSON files that `fashion-infer compare` reads.

    Parameters
    ----------
    out
        The folder: new, empty, or a former report, which is replaced once the new one is whole.
    request
        What to measure.
    tick
        As `gather.measure` takes it.

    Returns
    -------
    pathlib.Path, Measured
        The page, and what was measured: `Measured.wrong` says whether anything is not as it must be.

    Raises
    ------
    UsageError, DataError, CheckpointError, DeviceError
        As `folder.check` and `gather.measure` do; nothing is left behind then.
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
