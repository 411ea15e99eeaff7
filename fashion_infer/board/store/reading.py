"""What clients and pages read: a submission, a person's submissions, the queue, a log."""

import json
from datetime import datetime
from typing import Any, Dict, List, NamedTuple, Optional

from sqlalchemy import func, select
from sqlalchemy.orm import Session, selectinload

from .expectation import Wait, expected
from .models import Class, Content, Job, Judgement, LogLine, Person, Submission
from .people import sees_all
from .ranking import may_read
from .types import PENDING, QUEUED, RUNNING


class Detail(NamedTuple):
    """All that somebody may see of one submission."""

    submission: Submission
    author: Person
    wait: Optional[Wait]  # None unless it waits or runs
    judgement: Optional[Judgement]  # of the first judging; None before it ended
    finals: List[Judgement]  # of the runs at the end
    verdict: Optional[Dict[str, Any]]  # the grader's document, without what the rubric does not show to students


def find(session: Session, identifier: str, viewer: Optional[Person]) -> Optional[Submission]:
    """A submission; None when there is none, and in the same way when the viewer may not see it."""
    found = session.get(Submission, identifier) if len(identifier) <= 32 else None
    return found if found is not None and may_read(found, viewer) else None


def detail(session: Session, identifier: str, viewer: Optional[Person]) -> Optional[Detail]:
    """All of a submission that a viewer may see; None as in `find`."""
    found = find(session, identifier, viewer)
    if found is None:
        return None
    first = next((one for one in found.judgements if one.purpose == "first"), None)
    finals = [one for one in found.judgements if one.purpose != "first"]
    verdict = _shown(first.verdict, sees_all(viewer)) if first is not None and first.verdict else None
    wait = expected(session, found) if found.status in PENDING else None
    return Detail(found, found.person, wait, first, finals, verdict)


def _shown(text: str, everything: bool) -> Optional[Dict[str, Any]]:
    """A verdict without what its rubric hides from students."""
    try:
        verdict = json.loads(text)
    except ValueError:
        return None
    if everything:
        return verdict
    show = verdict.get("rubric", {}).get("show", {})
    if not show.get("printed", True):
        verdict.pop("printed", None)
    if not show.get("times", True):
        for name in ("times", "samples", "fill_ms", "op_time_ms", "layer_time_ms"):
            verdict.pop(name, None)
        # A message of a check of times has them in it.
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


def submissions_of(session: Session, person: Person, limit: int = 200) -> List[Submission]:
    """A person's submissions with their judgements, newest first."""
    return _submissions(session, select(Submission).where(Submission.person_id == person.id), limit)


def submissions_in(session: Session, of_class: Class, limit: int = 500) -> List[Submission]:
    """Every submission of a class with its judgements, newest first: for the class's staff."""
    return _submissions(session, select(Submission).where(Submission.class_id == of_class.id), limit)


def _submissions(session: Session, query, limit: int) -> List[Submission]:
    query = query.order_by(Submission.submitted_at.desc(), Submission.id).limit(limit)
    return list(session.scalars(query.options(selectinload(Submission.judgements), selectinload(Submission.person))))


class Waiting(NamedTuple):
    """A line of the queue. The name is a pseudonym unless the viewer may see it."""

    place: int  # 0 while it runs
    name: str
    own: bool
    submission_id: Optional[str]  # None where the viewer may not see it
    state: str  # running, queued
    purpose: str
    queued_at: datetime


def queue(session: Session, of_class: Class, viewer: Optional[Person], limit: int = 500) -> List[Waiting]:
    """The queue that a class waits in, in its order: what runs, then what waits. Another class's are pseudonyms."""
    order = (Job.state.desc(), Job.round, Job.queued_at, Job.id)  # "running" after "queued" by the alphabet
    query = select(Job).where(Job.backend == of_class.backend, Job.state.in_((QUEUED, RUNNING))).order_by(*order)
    lines: List[Waiting] = []
    place = 0
    loaded = query.limit(limit).options(selectinload(Job.submission).selectinload(Submission.person))
    for job in session.scalars(loaded):
        place += job.state == QUEUED
        person = job.submission.person
        named = may_read(job.submission, viewer) or (person.class_id == of_class.id and of_class.names_open)
        own = viewer is not None and person.id == viewer.id
        lines.append(Waiting(
            place if job.state == QUEUED else 0, person.name if named else person.pseudonym, own,
            job.submission_id if may_read(job.submission, viewer) else None, job.state, job.purpose, job.queued_at,
        ))  # fmt: skip
    return lines


def waiting(session: Session, backend: str) -> int:
    """How many jobs wait in a queue."""
    query = select(func.count()).select_from(Job).where(Job.backend == backend, Job.state == QUEUED)
    return session.scalar(query) or 0


def log_lines(session: Session, submission: Submission, after: int = 0, limit: int = 1000) -> List[LogLine]:
    """Lines of a log whose numbers are above `after`, in their order."""
    query = select(LogLine).where(LogLine.submission_id == submission.id, LogLine.id > after)
    return list(session.scalars(query.order_by(LogLine.id).limit(limit)))


def content_of(session: Session, submission: Submission) -> bytes:
    """A submission's bytes. Who asks is to be checked with `ranking.may_read`, and is written to the audit log."""
    return session.get_one(Content, submission.id).content
