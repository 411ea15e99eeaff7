"""Runs the grader's command on a submission."""

import contextlib
import json
import math
import os
import platform
import shlex
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional

from ..store.queue import Claimed, JudgingOutcome
from . import lifeline

LONGEST = 1800.0  # time limit in seconds for a grader that hangs; the grader itself limits a submission's time
_LINES = 2000  # largest number of a grader's lines that become lines of the log
_LOG, _OUTCOME, _UNABLE = "log", "outcome", "unable"


class Event(NamedTuple):
    """A message of a grader. Its last message is of a kind other than "log"."""

    kind: str  # "log"; "outcome"; "unable" if the machine could not judge; "died" (see graders.py)
    text: str = ""  # a line of the log, or the reason of the last message
    outcome: Optional[JudgingOutcome] = None  # of "outcome" and "unable"


def command_of(grader: Optional[str]) -> List[str]:
    """Return the words of a grader's command; None means `fashion-infer grade` of this installation."""
    return shlex.split(grader) if grader else [sys.executable, "-m", "fashion_infer", "grade"]


def run(
    claimed: Claimed,
    grader: Optional[str] = None,
    longest: float = LONGEST,
    started: Callable[[int], object] = lambda process: None,
) -> Iterator[Event]:
    """Judge a submission in a separate process, and yield a "log" event per line, then one "outcome" or "unable" event.

    The grader may take `longest` seconds. `started` is called with the id of its process, which `end` takes.
    """
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fashion-infer-board-") as folder:
        place = Path(folder)
        (place / "in").mkdir()
        source, rubric, verdict = place / "in" / claimed.name, place / "rubric.toml", place / "verdict.json"
        source.write_bytes(claimed.content)
        rubric.write_text(claimed.rubric, encoding="utf-8")
        command = [*command_of(grader), str(source), "--rubric", str(rubric), "--backend", claimed.backend,
                   "--format", "json"]  # fmt: skip
        yield Event(_LOG, f"judging begins on {platform.node()}")
        with verdict.open("wb") as out:
            process = lifeline.start(command, cwd=folder, stdin=DEVNULL, stdout=out, stderr=PIPE)
        said = process.stderr
        assert said is not None
        started(process.pid)
        timer = threading.Timer(longest, end, (process.pid,))
        timer.start()
        last = ""
        try:
            for number, line in enumerate(iter(lambda: said.readline(4000), b"")):
                text = line.decode("utf-8", "replace").rstrip().replace(folder + "/in/", "")
                last = text or last
                if number < _LINES and text:
                    yield Event(_LOG, text)
            process.wait()
        finally:
            timer.cancel()
            end(process.pid)  # also ends other processes that remain in its group
            process.wait()
            said.close()
        seconds = time.monotonic() - start
        yield _ended(verdict, seconds, last, process.returncode)


def end(process: int) -> None:
    """Kill a grader's process and all processes of its group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process, signal.SIGKILL)


def _ended(path: Path, seconds: float, last: str, code: int) -> Event:
    try:
        text = path.read_text(encoding="utf-8")
        found = _outcome(json.loads(text), text, seconds)
    except (OSError, ValueError, KeyError, TypeError):
        why = last or f"the grader ended with exit code {code}"
        return Event(_UNABLE, why, JudgingOutcome("failed", why, seconds=seconds, node=platform.node()))
    return Event(_UNABLE if found.status == "failed" else _OUTCOME, found.reason, found)


def _outcome(verdict: Dict[str, Any], text: str, seconds: float) -> JudgingOutcome:
    """Return the outcome of a verdict; ValueError for an unknown status, or a number that is negative or not finite."""
    if verdict["status"] not in ("judged", "refused", "failed"):
        raise ValueError("the verdict has an unknown status")
    numbers = [verdict[name] for name in ("op_time_ms", "layer_time_ms", "points", "out_of")]
    if not all(0 <= number < math.inf for number in numbers if number is not None):
        raise ValueError("a number of the verdict is negative or not finite")
    return JudgingOutcome(
        verdict["status"],
        verdict["reason"],
        bool(verdict["ranked"]),
        verdict["op_time_ms"],
        verdict["layer_time_ms"],
        float(verdict["points"]),
        float(verdict["out_of"]),
        text,
        seconds,
        platform.node(),
    )
