"""Makes the report's profiles: with `fashion-infer profile` or, if that fails, from the runs' op times.

It runs in a separate process, because CUPTI must start before CUDA is first called.
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
from ..system import programs

_TIMEOUT = 600  # seconds; a profile of 10,000 images takes ten seconds


class ReportProfile(NamedTuple):
    mode: str
    command: str  # command that repeats the profile
    figures: Figures
    missing: str  # reason why the profiler could not run; `figures` are then only op times. "" if it ran


def measure(words: Sequence[str], result: Result, command: str) -> ReportProfile:
    """Run `fashion-infer WORDS`, a profile command. If it fails, make a table of the result's op times instead."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "profile.json")
        program = [sys.executable, "-m", "fashion_infer", *words, "--json", str(file)]
        try:
            done = programs.run(program, _TIMEOUT)
            if done.returncode == 0:
                return ReportProfile(result.mode, command, from_dict(json.loads(file.read_text(encoding="utf-8"))), "")
            said = programs.last_line(done)
            reason = said.partition("fashion-infer: ")[2] or said
        except (OSError, ValueError, KeyError, TypeError, subprocess.TimeoutExpired) as error:
            reason = str(error)
    return ReportProfile(result.mode, command, Figures([from_op_times(result)]), reason)


def from_op_times(result: Result) -> ProfileTable:
    """Make a profile's table from a run's op times. In it, a call is a pass over all images."""
    taken = {
        f"{layer.name} ({layer.kernel or layer.operator})": [round(1e9 * s) for s in layer.seconds]
        for layer in result.layers
    }
    total = sum(map(sum, taken.values())) or 1
    rows = [Row(name, sum(ns) / total, sum(ns), len(ns), min(ns), max(ns)) for name, ns in taken.items()]
    return ProfileTable("Op times", sorted(rows, key=lambda row: -row.time))
