"""The report's profiles: `fashion-infer profile` run as a program of its own, or what the runs' op times give.

A program of its own, because CUPTI must be there before CUDA is first called, and because the times and the memory of
the whole program are part of a profile.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple, Sequence

from ..profiling.figures import Figures, from_dict
from ..profiling.tables import ProfileTable, Row
from ..result import Result
from ..system import child_process

_TIMEOUT = 600  # seconds; 10,000 images take ten


class ReportProfile(NamedTuple):
    """One mode's profile."""

    mode: str
    command: str  # that repeats it
    figures: Figures
    missing: str  # why the profiler could not run, so that figures are op times only; "" if it ran


def measure(words: Sequence[str], result: Result, command: str) -> ReportProfile:
    """Run a `fashion-infer profile` command; where it cannot, make the table of the result's op times instead.

    Parameters
    ----------
    words
        The command line behind "fashion-infer".
    result
        A run of the same network in the same mode.
    command
        The command line as the report shows it.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "profile.json")
        program = [sys.executable, "-m", "fashion_infer", *words, "--json", str(file)]
        try:
            done = child_process.run(program, _TIMEOUT)
            if done.returncode == 0:
                return ReportProfile(result.mode, command, from_dict(json.loads(file.read_text(encoding="utf-8"))), "")
            said = child_process.last_line(done)
            reason = said.partition("fashion-infer: ")[2] or said
        except (OSError, ValueError, KeyError, TypeError, subprocess.TimeoutExpired) as error:
            reason = str(error)
    return ReportProfile(result.mode, command, Figures([from_op_times(result)]), reason)


def from_op_times(result: Result) -> ProfileTable:
    """The table of a run's own op times: a call is a pass over all images."""
    taken = {
        f"{layer.name} ({layer.kernel or layer.operator})": [round(1e9 * s) for s in layer.seconds]
        for layer in result.layers
    }
    total = sum(map(sum, taken.values())) or 1
    rows = [Row(name, sum(ns) / total, sum(ns), len(ns), min(ns), max(ns)) for name, ns in taken.items()]
    return ProfileTable("Op times", sorted(rows, key=lambda row: -row.time))
