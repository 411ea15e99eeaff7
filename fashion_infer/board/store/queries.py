"""Queries for the API and the pages. Functions that take a viewer return only what the viewer may see."""

import json
from datetime import datetime
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from sqlalchemy import Row, func, select
from sqlalchemy.orm import Session, selectinload

from ...errors import FashionInferError
from .audit import record
from .database import Store
from .expectation import ExpectedWait, expected, schedule
from .models import FIRST, PENDING, QUEUED, RUNNING, Class, Content, JobRow, Judgement, LogLine, Person, SubmissionRow
from .people import sees_all


class NotFound(FashionInferError):
    """Raised when a submission does not exist or the viewer may not see it. The error does not say which of the two."""

    status = 404

    def __init__(self) -> None:
        super().__init__("there is no such submission, or you may not see it")


class SubmissionDetail(NamedTuple):
    submission: SubmissionRow
    wait: Optional[ExpectedWait]  # None if the submission neither waits nor runs
    verdict: Optional[Dict[str, Any]]  # the grader's document; for students, without what the rubric hides


def may_read(submission: SubmissionRow, viewer: Person) -> bool:
    """Return whether a person may see a submission's code, log and verdict: its author and its class's staff may."""
    return viewer.class_id == submission.class_id and (viewer.id == submission.person_id or sees_all(viewer))


def find(session: Session, identifier: str, viewer: Person) -> SubmissionRow:
    found = session.get(SubmissionRow, identifier) if len(identifier) <= 32 else None
    if found is None or not may_read(found, viewer):
        raise NotFound
    return found


def detail(session: Session, identifier: str, viewer: Person) -> SubmissionDetail:
    found = find(session, identifier, viewer)
    wait = expected(session, found) if found.status in PENDING else None
    text = found.judgement.verdict if found.judgement is not None else ""
    return SubmissionDetail(found, wait, visible(text, sees_all(viewer)) if text else None)


def content_of(store: Store, identifier: str, viewer: Person, address: str) -> Tuple[SubmissionRow, bytes]:
    """Return a submission and its bytes; NotFound as in `find`. Reading another's code is recorded in the audit log."""
    with store.read() as session:
        found = find(session, identifier, viewer)
        content = session.get_one(Content, found.id).content
    if found.person_id != viewer.id:
        with store.write() as session:
            record(session, viewer.name, "read code", found.id, found.class_id, address)
    return found, content


def visible(text: str, everything: bool) -> Optional[Dict[str, Any]]:
    """Return a verdict, without what its rubric hides from students unless `everything`; None if it is not JSON."""
    try:
        verdict = json.loads(text)
    except ValueError:
        return None
    if everything:
        return verdict
    verdict.pop("sandbox", None)
    show = verdict.get("rubric", {}).get("show", {})
    if show.get("explain") is not True:
        verdict.pop("explain", None)
    if not show.get("printed", True):
        verdict.pop("printed", None)
    if not show.get("times", True):
        for name in ("times", "samples", "fill_ms", "op_time_ms", "layer_time_ms"):
            verdict.pop(name, None)
        # The message of a time check contains times.
        _remove("message", [mark for mark in verdict.get("marks", []) if mark.get("kind") == "time"])
    if not show.get("diagnosis", True):
        _remove("message", verdict.get("marks", []))
        for name in ("code", "text", "where", "advice"):
            _remove(name, verdict.get("findings", []))
    return verdict


def _remove(name: str, parts: List[Dict[str, Any]]) -> None:
    for part in parts:
        part.pop(name, None)


def by(person: Person):
    return SubmissionRow.person_id == person.id


def submissions(session: Session, condition, limit: int = 200, start: int = 0) -> List[SubmissionRow]:
    """Return the submissions that meet a condition, newest first: at most `limit`, after the first `start`."""
    query = select(SubmissionRow).where(condition).order_by(SubmissionRow.submitted_at.desc(), SubmissionRow.id)
    related = selectinload(SubmissionRow.judgements), selectinload(SubmissionRow.person)
    return list(session.scalars(query.offset(start).limit(limit).options(*related)))


class QueuedJob(NamedTuple):
    """A queued or running job: as it is, or as one viewer sees it (`seen`)."""

    place: int  # 1 for the job that starts next; 0 for a running job
    start_in: Optional[float]  # seconds until the job starts; None while no grader is running
    id: int
    state: str
    purpose: str
    queued_at: datetime
    submission_id: Optional[str]  # None if the viewer may not see the submission
    person_id: int
    class_id: int
    name: str  # or, for a viewer who may not see it, the pseudonym
    pseudonym: str
    own: bool = False  # whether the job is the viewer's

    def seen(self, viewer: Person) -> "QueuedJob":
        """Return the job as a viewer sees it: others' names are pseudonyms unless for staff or with `names_open`."""
        own, same_class = self.person_id == viewer.id, self.class_id == viewer.class_id
        readable = own or (same_class and sees_all(viewer))
        named = readable or (same_class and viewer.of_class.names_open)
        identifier = self.submission_id if readable else None
        return self._replace(name=self.name if named else self.pseudonym, submission_id=identifier, own=own)


def queue(session: Session, backend: str) -> List[QueuedJob]:
    """Return the jobs of a backend's queue in its order: running jobs, then waiting jobs."""
    rows = session.execute(
        select(
            JobRow.id,
            JobRow.state,
            JobRow.purpose,
            JobRow.queued_at,
            JobRow.submission_id,
            SubmissionRow.person_id,
            SubmissionRow.class_id,
            Person.name,
            Person.pseudonym,
        )
        .join(JobRow.submission)
        .join(SubmissionRow.person)
        .where(JobRow.backend == backend, JobRow.state.in_((QUEUED, RUNNING)))
    )
    by_id = {row.id: row for row in rows}
    waits = [(wait, by_id[job]) for job, wait in schedule(session, backend).items() if job in by_id]
    return [QueuedJob(wait.place, wait.start_in, *row) for wait, row in waits]


def waiting(session: Session, backend: str) -> int:
    query = select(func.count()).select_from(JobRow).where(JobRow.backend == backend, JobRow.state == QUEUED)
    return session.scalar(query) or 0


def log_lines(session: Session, submission: SubmissionRow, after: int = 0, limit: int = 1000) -> List[LogLine]:
    query = select(LogLine).where(LogLine.submission_id == submission.id, LogLine.id > after)
    return list(session.scalars(query.order_by(LogLine.id).limit(limit)))


def roster(session: Session, of_class: Class) -> List[Row]:
    """Return (person, number of submissions without tests, device seconds) for everyone in a class, sorted by name."""
    first = (Judgement.submission_id == SubmissionRow.id) & (Judgement.purpose == FIRST)
    query = (
        select(Person, func.count(SubmissionRow.id), func.coalesce(func.sum(Judgement.seconds), 0.0))
        .outerjoin(SubmissionRow, (SubmissionRow.person_id == Person.id) & ~SubmissionRow.test)
        .outerjoin(Judgement, first)
        .where(Person.class_id == of_class.id)
        .group_by(Person.id)
        .order_by(func.lower(Person.name))
    )
    return list(session.execute(query.options(selectinload(Person.team))))


def counts(session: Session, of_class: Class) -> Dict[str, int]:
    def count(table, *where) -> int:
        return session.scalar(select(func.count()).select_from(table).where(table.class_id == of_class.id, *where)) or 0

    return {
        "people": count(Person),
        "submissions": count(SubmissionRow),
        "pending": count(SubmissionRow, SubmissionRow.status.in_(PENDING)),
    }
