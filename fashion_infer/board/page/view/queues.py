"""The page of the queue: what runs, what waits, and where one's own stand."""

import hashlib
from typing import Dict, List

from ...store.models import Class, Person
from ...store.types import QUEUED, RUNNING
from ..queue_cache import InLine
from . import values, words

_NONE = "No grader is up at the moment: what waits is kept, and starts when one is."
_SHOWN = 50  # lines of a queue; one's own are shown wherever they stand


def gather(line: List[InLine], of_class: Class, person: Person, slots: int) -> values.Queue:
    """The page's values."""
    waiting = [job for job in line if job.state == QUEUED]
    running = len(line) - len(waiting)
    rows, hidden = [], 0
    for index, job in enumerate(line):
        seen = job.seen(person, of_class)
        if index >= _SHOWN and not seen.own:
            hidden += 1
            continue
        rows.append(values.QueueRow(
            str(job.place or words.NONE), seen.name, seen.own, seen.submission_id, values.state(job.state), _wait(job),
            job.queued_at,
        ))  # fmt: skip
    graders = f"{slots} grader{'' if slots == 1 else 's'}"
    empty = "Nothing waits: what is handed in now starts at once." if slots else f"Nothing waits. {_NONE}"
    busy = f"{running} of {graders} at work, {len(waiting)} waiting. Who waits takes turns: one submission of each."
    busy += "" if slots else f" {_NONE}"
    lead = busy if line else empty
    more = f"… and {hidden} more" if hidden else ""
    return values.Queue(lead, _own(line, person), "In order", rows, more, version(line))


def place(job: InLine) -> str:
    """Where a submission stands, in words."""
    if job.state == RUNNING:
        return "it runs now"
    stands = f"{_ordinal(job.place)} in the queue"
    return f"{stands}; no grader is up" if job.start_in is None else f"{stands}, starts in {_about(job)}"


def short(job: InLine) -> str:
    """The same for a table, beside the state."""
    if job.state == RUNNING:
        return ""
    return f"{_ordinal(job.place)}, {'no grader is up' if job.start_in is None else f'in {_about(job)}'}"


def version(line: List[InLine]) -> str:
    """Changes whenever the page does."""
    text = " ".join(f"{job.submission_id}{job.state}{words.seconds(job.start_in)}" for job in line)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _wait(job: InLine) -> str:
    return "runs now" if job.state == RUNNING else "no grader is up" if job.start_in is None else _about(job)


def _about(job: InLine) -> str:
    return f"about {words.seconds(job.start_in)}"


def _own(line: List[InLine], person: Person) -> List[str]:
    found: Dict[str, str] = {}
    for job in line:
        if job.person_id == person.id:
            found.setdefault(job.submission_id, f"Your {job.submission_id}: {place(job)}.")
    return list(found.values())


def _ordinal(number: int) -> str:
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
