"""Queries for the API and the pages: one submission, lists of submissions, the queue, a log, the people of a class.

Functions that take a viewer return only what the viewer may see.
"""

import json
from datetime import datetime
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from sqlalchemy import Row, func, select
from sqlalchemy.orm import Session, selectinload

from ...errors import FashionInferError
from .audit import record
from .database import Store
from .expectation import ExpectedWait, expected, schedule
from .models import Class, Content, JobRow, Judgement, LogLine, Person, SubmissionRow
from .people import sees_all
from .types import PENDING, QUEUED, RUNNING


class NotFound(FashionInferError):
    """There is no submission with an identifier, or the viewer may not see it; the error does not say which."""

    status = 404

    def __init__(self) -> None:
        super().__init__("there is no such submission of yours")


class Detail(NamedTuple):
    """Everything that a viewer may see of one submission."""

    submission: SubmissionRow
    wait: Optional[ExpectedWait]  # None unless the submission waits or runs
    verdict: Optional[Dict[str, Any]]  # the grader's document, without what the rubric hides from students

    @property
    def judgement(self) -> Optional[Judgement]:
        """Outcome of the first judging; None before that judging has ended."""
        return self.submission.judgement


def may_read(submission: SubmissionRow, viewer: Person) -> bool:
    """Return whether a person may see a submission's code, log and verdict, as its author or as staff of its class."""
    return viewer.class_id == submission.class_id and (viewer.id == submission.person_id or sees_all(viewer))


def find(session: Session, identifier: str, viewer: Person) -> SubmissionRow:
    """Return a submission; NotFound when there is none or the viewer may not see it."""
    found = session.get(SubmissionRow, identifier) if len(identifier) <= 32 else None
    if found is None or not may_read(found, viewer):
        raise NotFound
    return found


def detail(session: Session, identifier: str, viewer: Person) -> Detail:
    """Return everything that a viewer may see of a submission; NotFound as in `find`."""
    found = find(session, identifier, viewer)
    wait = expected(session, found) if found.status in PENDING else None
    text = found.judgement.verdict if found.judgement is not None else ""
    return Detail(found, wait, _shown(text, sees_all(viewer)) if text else None)


def content_of(store: Store, identifier: str, viewer: Person, address: str) -> Tuple[SubmissionRow, bytes]:
    """Return a submission and its bytes; NotFound as in `find`. Reading another person's code is audited."""
    with store.read() as session:
        found = find(session, identifier, viewer)
        content = session.get_one(Content, found.id).content
    if found.person_id != viewer.id:
        with store.write() as session:
            record(session, viewer.name, "read code", found.id, found.class_id, address)
    return found, content


def _shown(text: str, everything: bool) -> Optional[Dict[str, Any]]:
    """Return a verdict without what its rubric hides from students."""
    try:
        verdict = json.loads(text)
    except ValueError:
        return None
    if everything:
        return verdict
    show = verdict.get("rubric", {}).get("show", {})
    if show.get("explain") is not True:
        verdict.pop("explain", None)
    if not show.get("printed", True):
        verdict.pop("printed", None)
    if not show.get("times", True):
        for name in ("times", "samples", "fill_ms", "op_time_ms", "layer_time_ms"):
            verdict.pop(name, None)
        # The message of a time check contains times.
        _without("message", [mark for mark in verdict.get("marks", []) if mark.get("kind") == "time"])
    if not show.get("diagnosis", True):
        _without("message", verdict.get("marks", []))
        _without("said", verdict.get("samples", []))
        for name in ("text", "where", "advice"):
            _without(name, verdict.get("findings", []))
    return verdict


def _without(name: str, parts: List[Dict[str, Any]]) -> None:
    for part in parts:
        part.pop(name, None)


def by(person: Person):
    """Return the condition that selects a person's submissions."""
    return SubmissionRow.person_id == person.id


def submissions(session: Session, condition, limit: int = 200, start: int = 0) -> List[SubmissionRow]:
    """Return the submissions selected by a condition, with their people and judgements, newest first."""
    query = select(SubmissionRow).where(condition).order_by(SubmissionRow.submitted_at.desc(), SubmissionRow.id)
    related = selectinload(SubmissionRow.judgements), selectinload(SubmissionRow.person)
    return list(session.scalars(query.offset(start).limit(limit).options(*related)))


class SeenJob(NamedTuple):
    """A queued or running job as one viewer sees it."""

    place: int
    start_in: Optional[float]
    name: str
    own: bool
    submission_id: Optional[str]  # None where the viewer may not see the submission
    state: str
    purpose: str
    queued_at: datetime


class QueuedJob(NamedTuple):
    """A queued or running job with everything that any viewer may see."""

    place: int  # 0 while it runs
    start_in: Optional[float]  # seconds until it starts; None while no grader is running
    id: int
    state: str
    purpose: str
    queued_at: datetime
    submission_id: str
    person_id: int
    class_id: int
    name: str
    pseudonym: str

    def seen(self, viewer: Person) -> SeenJob:
        """Return the job as a viewer sees it.

        The person's name is visible to that person, to staff of the class and, if the class opens names, to everyone in
        the class. Others see a pseudonym.
        """
        own, same_class = self.person_id == viewer.id, self.class_id == viewer.class_id
        readable = own or (same_class and sees_all(viewer))
        named = readable or (same_class and viewer.of_class.names_open)
        return SeenJob(self.place, self.start_in, self.name if named else self.pseudonym, own,
                       self.submission_id if readable else None, self.state, self.purpose, self.queued_at)  # fmt: skip


def queue(session: Session, backend: str, limit: int = 100_000) -> List[QueuedJob]:
    """Return a queue in its order: running jobs, then waiting ones."""
    rows = session.execute(
        select(JobRow.id, JobRow.state, JobRow.purpose, JobRow.queued_at, JobRow.submission_id, SubmissionRow.person_id,
               SubmissionRow.class_id, Person.name, Person.pseudonym)
        .join(JobRow.submission).join(SubmissionRow.person)
        .where(JobRow.backend == backend, JobRow.state.in_((QUEUED, RUNNING)))
    )  # fmt: skip
    by_id = {row.id: row for row in rows}
    waits = [(wait, by_id[job]) for job, wait in schedule(session, backend).items() if job in by_id]
    return [QueuedJob(wait.place, wait.start_in, *row) for wait, row in waits[:limit]]


def waiting(session: Session, backend: str) -> int:
    """Return the number of jobs that wait in a queue."""
    query = select(func.count()).select_from(JobRow).where(JobRow.backend == backend, JobRow.state == QUEUED)
    return session.scalar(query) or 0


def log_lines(session: Session, submission: SubmissionRow, after: int = 0, limit: int = 1000) -> List[LogLine]:
    """Return a log's lines with numbers above `after`, in order."""
    query = select(LogLine).where(LogLine.submission_id == submission.id, LogLine.id > after)
    return list(session.scalars(query.order_by(LogLine.id).limit(limit)))


def roster(session: Session, of_class: Class) -> List[Row]:
    """Return (person, number of submissions, device seconds) for everyone in a class, by name."""
    first = (Judgement.submission_id == SubmissionRow.id) & (Judgement.purpose == "first")
    query = (
        select(Person, func.count(SubmissionRow.id), func.coalesce(func.sum(Judgement.seconds), 0.0))
        .outerjoin(SubmissionRow, SubmissionRow.person_id == Person.id).outerjoin(Judgement, first)
        .where(Person.class_id == of_class.id).group_by(Person.id).order_by(func.lower(Person.name))
    )  # fmt: skip
    return list(session.execute(query.options(selectinload(Person.team))))


def counts(session: Session, of_class: Class) -> Dict[str, int]:
    """Return the numbers of people and submissions of a class, and of submissions that wait or run."""

    def count(table, *where) -> int:
        return session.scalar(select(func.count()).select_from(table).where(table.class_id == of_class.id, *where)) or 0

    return {"people": count(Person), "submissions": count(SubmissionRow),
            "pending": count(SubmissionRow, SubmissionRow.status.in_(PENDING))}  # fmt: skip
