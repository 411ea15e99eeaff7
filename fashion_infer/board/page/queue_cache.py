"""The queue as all see it, read once a second and not once a look."""

import threading
import time
from datetime import datetime
from typing import Dict, List, NamedTuple, Optional

from sqlalchemy import select
from sqlalchemy.orm import Session

from ..store.expectation import schedule
from ..store.models import Class, Job, Person, Submission
from ..store.people import sees_all
from ..store.types import QUEUED, RUNNING

_KEPT, _OLD = 1.0, 5.0  # seconds


class InLine(NamedTuple):
    """A job that runs or waits, before it is decided what a viewer sees of it."""

    place: int  # 0 while it runs
    start_in: Optional[float]  # seconds; None where no grader is up
    state: str
    purpose: str
    queued_at: datetime
    submission_id: str
    person_id: int
    class_id: int
    name: str
    pseudonym: str

    def seen(self, viewer: Person, of_class: Class) -> "Seen":
        """What somebody sees of it: the name of one's own, the staff those of their class, all others pseudonyms."""
        own = self.person_id == viewer.id
        same = self.class_id == viewer.class_id
        readable = own or (same and sees_all(viewer))
        named = readable or (same and of_class.names_open)
        return Seen(self, own, self.name if named else self.pseudonym, self.submission_id if readable else "")


class Seen(NamedTuple):
    """A job as somebody sees it."""

    job: InLine
    own: bool
    name: str
    submission_id: str  # "" for one that is not to be read


class Queues:
    """One a service."""

    def __init__(self) -> None:
        self._known: Dict[str, List[InLine]] = {}
        self._read: Dict[str, float] = {}
        self._lock = threading.Lock()

    def of(self, session: Session, backend: str) -> List[InLine]:
        """A queue in its order: what runs, then what waits."""
        age = time.monotonic() - self._read.get(backend, float("-inf"))
        # One reads it again; the others take what there is, unless it is too old by now.
        if age > _KEPT and self._lock.acquire(blocking=age > _OLD):
            try:
                if time.monotonic() - self._read.get(backend, float("-inf")) > _KEPT:
                    self._known[backend] = _read(session, backend)
                    self._read[backend] = time.monotonic()
            finally:
                self._lock.release()
        return self._known[backend]

    def forget(self) -> None:
        """Read again at the next look: something was taken back."""
        with self._lock:
            self._read.clear()


def find(line: List[InLine], submission_id: str) -> Optional[InLine]:
    """A submission's first judging in the queue."""
    return next((job for job in line if job.submission_id == submission_id and job.purpose == "first"), None)


def _read(session: Session, backend: str) -> List[InLine]:
    starts = schedule(session, backend)
    rows = session.execute(
        select(Job.id, Job.state, Job.purpose, Job.queued_at, Job.submission_id, Submission.person_id,
               Submission.class_id, Person.name, Person.pseudonym)
        .join(Job.submission).join(Submission.person)
        .where(Job.backend == backend, Job.state.in_((QUEUED, RUNNING)))
        .order_by(Job.round, Job.queued_at, Job.id)
    ).all()  # fmt: skip
    runs = [InLine(0, 0.0, *row[1:]) for row in rows if row.state == RUNNING]
    waits = [row for row in rows if row.state == QUEUED]
    return runs + [
        InLine(place, None if starts is None else starts.get(row.id, 0.0), *row[1:])
        for place, row in enumerate(waits, 1)
    ]
