"""Accepts submissions: checks the deadline and all limits, and stores and queues a submission in one transaction."""

import hashlib
import re
from datetime import datetime, timedelta
from pathlib import PurePosixPath
from typing import Optional, Tuple

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from ...errors import FashionInferError
from .audit import record
from .models import FIRST, PENDING, RUNNING, TEST, Class, Content, JobRow, LogLine, Person, SubmissionRow, now
from .queue import enqueue

_KEY = re.compile(r"[A-Za-z0-9._:-]{1,128}")
NAME_LENGTH = 100


class NotTaken(FashionInferError):
    """Raised when a submission is not accepted. `retry_after` is in seconds; None if waiting does not help."""

    exit_code = 1

    def __init__(self, message: str, status: int, retry_after: Optional[int] = None):
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after


def safe_name(name: str) -> str:
    last = PurePosixPath(name.replace("\\", "/")).name
    kept = re.sub(r"[^A-Za-z0-9._+-]", "_", last).lstrip(".-")
    stem, dot, suffix = kept.rpartition(".")
    if len(kept) > NAME_LENGTH:
        kept = f"{stem[: NAME_LENGTH - len(suffix[:20]) - 1]}{dot}{suffix[:20]}"
    return kept or "submission"


def accept(
    session: Session,
    person: Person,
    name: str,
    content: bytes,
    key: Optional[str] = None,
    final: bool = False,
    test: bool = False,
    address: str = "",
    at: Optional[datetime] = None,
) -> Tuple[SubmissionRow, bool]:
    """Store and queue a submission within the caller's transaction; NotTaken if a rule refuses it. Return it, and
    whether it is new: False if an earlier request stored it.
    Requests of a person with the same `key`, by default the digest with `final` and `test`, make one submission."""
    at = at or now()
    of_class = person.of_class
    digest = hashlib.sha256(content).hexdigest()
    if key is not None and not _KEY.fullmatch(key):
        raise NotTaken("an identifier has at most 128 letters, digits, dots, colons, dashes and underscores", 422)
    if final and test:
        raise NotTaken("a test cannot be final: choose one of the two", 422)
    kind = ":final" if final else ":test" if test else ""
    key = f"id:{key}"[:128] if key is not None else f"sha256:{digest}{kind}"
    # Lock the person's row, so that two concurrent requests cannot both pass the limits or use the same key.
    session.execute(select(Person.id).where(Person.id == person.id).with_for_update())
    known = session.scalar(select(SubmissionRow).where(SubmissionRow.person_id == person.id, SubmissionRow.key == key))
    if known is not None:
        if known.digest != digest:
            raise NotTaken(f"the identifier belongs to another submission, {known.id}", 409)
        return known, False
    _check(session, person, of_class, content, test, at)
    made = SubmissionRow(
        class_id=of_class.id,
        person_id=person.id,
        key=key,
        digest=digest,
        name=safe_name(name),
        size=len(content),
        final=final,
        test=test,
        submitted_at=at,
    )
    session.add(made)
    session.flush()
    session.add(Content(submission_id=made.id, content=content))
    session.add(LogLine(submission_id=made.id, at=at, text=f"{made.name}, {made.size} bytes, stored as {made.id}"))
    enqueue(session, made, of_class.backend, TEST if test else FIRST, at)
    record(session, person.name, "test" if test else "submit", f"{made.id} {digest}", of_class.id, address)
    session.flush()
    return made, True


def _check(session: Session, person: Person, of_class: Class, content: bytes, test: bool, at: datetime) -> None:
    if of_class.deadline is not None and at > of_class.deadline:
        raise NotTaken("the deadline has passed", 403)
    if not content:
        raise NotTaken("the submission is empty", 422)
    if len(content) > of_class.most_bytes:
        raise NotTaken(f"the submission has more than {of_class.most_bytes} bytes", 413)
    own = select(func.count()).select_from(SubmissionRow).where(SubmissionRow.person_id == person.id)
    if (session.scalar(own.where(SubmissionRow.status.in_(PENDING))) or 0) >= of_class.most_pending:
        raise NotTaken(f"{of_class.most_pending} of your submissions wait or run: wait until one has ended", 429, 30)
    hour = timedelta(hours=1)
    since = session.scalars(
        select(SubmissionRow.submitted_at)
        .where(SubmissionRow.person_id == person.id, SubmissionRow.test == test, SubmissionRow.submitted_at > at - hour)
        .order_by(SubmissionRow.submitted_at)
    ).all()
    most, what = (of_class.most_tests_an_hour, "tests") if test else (of_class.most_an_hour, "submissions")
    if len(since) >= most:
        wait = max(1, round((since[len(since) - most] + hour - at).total_seconds()))
        raise NotTaken(f"the limit is {most} {what} per hour: try again in {wait} s", 429, wait)
    left = None if test else gpu_seconds_left(session, person, at)
    if left is not None and left <= 0:
        raise NotTaken(f"your {of_class.gpu_seconds:g} s of device time are used up: ask your instructor", 403)


def gpu_seconds_left(session: Session, person: Person, at: Optional[datetime] = None) -> Optional[float]:
    """Return a person's remaining device time in seconds; None if it is unlimited. Tests do not count."""
    allowed = person.of_class.gpu_seconds
    if allowed is None:
        return None
    own = SubmissionRow.person_id == person.id
    used = session.scalar(select(func.sum(SubmissionRow.spent)).where(own))
    starts = session.scalars(
        select(JobRow.started_at).join(JobRow.submission).where(own, JobRow.state == RUNNING, JobRow.purpose == FIRST)
    ).all()
    at = at or now()
    return allowed - (used or 0.0) - sum((at - start).total_seconds() for start in starts if start is not None)
