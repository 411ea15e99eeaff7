"""Measure, draw, write: a whole report into its folder."""

import json
from pathlib import Path
from typing import Callable, Tuple

from ..present import render, sections
from ..present import report_plots as plots
from . import folder, gather


def make(
    out: str, request: gather.Request, progress: Callable[[str], None] = lambda text: None
) -> Tuple[Path, gather.Measured]:
    """Make a report: index.html, report.md with its pictures, and JSON files that `fashion-infer compare` reads.

    Parameters
    ----------
    out
        The folder: new, empty, or a former report, which is replaced once the new one is whole.
    request
        What to measure.
    progress
        Called with a few words before each part.

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
    measured = gather.measure(request, progress)
    progress("pages")
    with folder.replacing(path) as new:
        report = sections.report(measured, out, plots.draw(new, measured))
        _write(new / render.HTML, render.html(report, new))
        _write(new / render.MARKDOWN, render.markdown(report))
        for run in measured.runs:
            _write(new / f"run-{run.mode}.json", json.dumps(run.as_dict(), indent=1) + "\n")
        for name, result in (("conv", measured.bench), ("net", measured.network)):
            if result:
                _write(new / f"bench-{name}.json", json.dumps(result.as_dict(), indent=1) + "\n")
    return path / render.HTML, measured


def _write(path, text):
    path.write_text(text, encoding="utf-8")
