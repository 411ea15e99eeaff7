"""Runs the grader's command on a submission, and graders without Ray: processes, each followed by a thread."""

import contextlib
import json
import math
import os
import platform
import queue
import shlex
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

from ..store.models import FAILED, INCORRECT, JUDGED, REFUSED, TEST
from ..store.queue import Claimed, JudgingOutcome
from . import lifeline

LONGEST = 1800.0  # time limit in seconds for a grader that hangs; the grader itself limits a submission's time
_LINES = 2000  # largest number of a grader's lines that become lines of the log
_LOG, _OUTCOME, _UNABLE = "log", "outcome", "unable"
DIED = "died"  # kind of the event of a grader that ended without another last message


class Event(NamedTuple):
    kind: str  # "log"; "outcome"; "unable" if the machine could not judge; "died" without another last message
    text: str = ""  # a line of the log, or the reason of the last message
    outcome: Optional[JudgingOutcome] = None  # of "outcome" and "unable"


Message = Tuple[str, Event]  # the lease of the job, and what its grader did


def command_of(grader: Optional[str]) -> List[str]:
    return shlex.split(grader) if grader else [sys.executable, "-m", "fashion_infer", "grade"]


def run(
    claimed: Claimed,
    grader: Optional[str] = None,
    longest: float = LONGEST,
    started: Callable[[int], object] = lambda process: None,
) -> Iterator[Event]:
    """Judge a submission in a separate process: yield a "log" event per line, then an "outcome" or "unable" event."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fashion-infer-board-") as folder:
        place = Path(folder)
        (place / "in").mkdir()
        source, rubric, verdict = place / "in" / claimed.name, place / "rubric.toml", place / "verdict.json"
        source.write_bytes(claimed.content)
        rubric.write_text(claimed.rubric, encoding="utf-8")
        command = [*command_of(grader), str(source), "--rubric", str(rubric), "--backend", claimed.backend, "--json"]
        command += ["--once"] if claimed.purpose == TEST else []
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
    status = verdict["status"]
    if status not in (JUDGED, REFUSED, FAILED):
        raise ValueError("the verdict has an unknown status")
    if status == JUDGED and any(one["follows"] == "refused" for one in verdict["findings"]):
        status = INCORRECT
    numbers = [verdict[name] for name in ("op_time_ms", "layer_time_ms", "points", "out_of")]
    if not all(0 <= number < math.inf for number in numbers if number is not None):
        raise ValueError("a number of the verdict is negative or not finite")
    return JudgingOutcome(
        status,
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


class Graders:
    """Runs graders with a command (see `command_of`). Subclasses implement where they run."""

    def __init__(self, grader: Optional[str]):
        self._grader = grader
        self.broken = False  # True if this process can no longer start graders
        self._messages: queue.SimpleQueue[Message] = queue.SimpleQueue()

    def slots(self) -> Dict[str, int]:
        """Return the largest number of graders that can run at the same time, by backend."""
        raise NotImplementedError

    def start(self, claimed: Claimed) -> None:
        """Start a grader for a job. `new_messages` returns its messages, the last of which is not of the kind "log"."""
        events = self._events(claimed)
        threading.Thread(target=self._follow, args=(claimed.lease, events), daemon=True).start()

    def stop(self, lease: str) -> None:
        raise NotImplementedError

    def new_messages(self) -> List[Message]:
        found = []
        while True:
            try:
                found.append(self._messages.get_nowait())
            except queue.Empty:
                return found

    def well(self) -> bool:
        return not self.broken

    def close(self) -> None:
        """End all graders."""

    def _events(self, claimed: Claimed) -> Iterator[Event]:
        raise NotImplementedError

    def _follow(self, lease: str, events: Iterator[Event]) -> None:
        ended = False
        try:
            for event in events:
                ended = ended or event.kind != "log"
                self._messages.put((lease, event))
        except Exception as error:  # of any kind, because the dispatcher waits for a last message
            why = " ".join(str(error).split())[:200] or type(error).__name__
            if not ended:
                self._messages.put((lease, Event(DIED, f"{type(error).__name__}: {why}")))
                return
        if not ended:
            self._messages.put((lease, Event(DIED, "the grader ended without an outcome")))


class LocalGraders(Graders):
    def __init__(self, grader: Optional[str], cpu: int, gpu: int = 0):
        super().__init__(grader)
        self._slots = {"cpu": cpu, "gpu": gpu}
        self._processes: Dict[str, int] = {}
        self._stopped: Set[str] = set()
        self._lock = threading.Lock()

    def slots(self) -> Dict[str, int]:
        return dict(self._slots)

    def stop(self, lease: str) -> None:
        with self._lock:
            self._stopped.add(lease)
            if lease in self._processes:
                end(self._processes[lease])

    def _events(self, claimed: Claimed) -> Iterator[Event]:
        def started(process: int) -> None:
            with self._lock:
                self._processes[claimed.lease] = process
                if claimed.lease in self._stopped:
                    end(process)

        try:
            yield from run(claimed, self._grader, started=started)
        finally:
            with self._lock:
                self._processes.pop(claimed.lease, None)
                self._stopped.discard(claimed.lease)
