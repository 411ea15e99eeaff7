"""The database's tables. All dates are in UTC. Columns named `_ms` are in milliseconds, other durations in seconds."""

import secrets
from datetime import datetime, timezone
from typing import ClassVar, List, Optional

from sqlalchemy import (
    CheckConstraint,
    DateTime,
    Double,
    ForeignKey,
    Index,
    LargeBinary,
    MetaData,
    String,
    Text,
    UniqueConstraint,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship
from sqlalchemy.types import TypeDecorator

STUDENT, ASSISTANT, INSTRUCTOR = "student", "assistant", "instructor"
ROLES = (STUDENT, ASSISTANT, INSTRUCTOR)
# States of a submission. It is queued, then running, then has one of the states in ENDED; until then it can be
# cancelled. A judged submission is correct; a refused one could not be run; of a failed one the machine is the cause.
QUEUED, RUNNING, JUDGED, INCORRECT = "queued", "running", "judged", "incorrect"
REFUSED, FAILED, CANCELLED = "refused", "failed", "cancelled"
# Purposes of a submission's own judging. All others are final runs: "final-1" to "final-5".
FIRST, TEST = "first", "test"
OWN = (FIRST, TEST)
DONE = "done"  # state of a job that ended with a judgement of any status
PENDING = (QUEUED, RUNNING)
ENDED = (JUDGED, INCORRECT, REFUSED, FAILED, CANCELLED)
_LETTERS = "23456789abcdefghjkmnpqrstuvwxyz"  # no characters that look like others


class Utc(TypeDecorator):
    """Column type of a time in UTC. The Python value has a time zone; the value in the database has none."""

    impl = DateTime(timezone=False)
    cache_ok = True

    def process_bind_param(self, value: Optional[datetime], dialect) -> Optional[datetime]:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("the time has no time zone")
        return value.astimezone(timezone.utc).replace(tzinfo=None)

    def process_result_value(self, value: Optional[datetime], dialect) -> Optional[datetime]:
        return None if value is None else value.replace(tzinfo=timezone.utc)


def now() -> datetime:
    return datetime.now(timezone.utc)


def short_id() -> str:
    """Return a random identifier that people can type. 12 letters from an alphabet of 31 have 59 random bits."""
    return "".join(secrets.choice(_LETTERS) for _ in range(12))


# Constraints are named, so that a migration can change them on every database.
_NAMES = {
    "ix": "ix_%(column_0_label)s",
    "uq": "uq_%(table_name)s_%(column_0_name)s",
    "pk": "pk_%(table_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s",
}


class Base(DeclarativeBase):
    metadata = MetaData(naming_convention=_NAMES)
    type_annotation_map: ClassVar = {datetime: Utc, str: String(200), float: Double()}


class Class(Base):
    __tablename__ = "classes"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    edition: Mapped[str]
    backend: Mapped[str]  # "cpu" or "gpu", which also names the queue
    rubric: Mapped[str] = mapped_column(Text)  # as TOML
    deadline: Mapped[Optional[datetime]]
    gpu_seconds: Mapped[Optional[float]]  # total device time per person, in seconds; None for no limit
    most_bytes: Mapped[int] = mapped_column(default=1 << 20)  # size limit of an upload
    most_pending: Mapped[int] = mapped_column(default=4)  # largest number of a person's waiting and running submissions
    most_an_hour: Mapped[int] = mapped_column(default=30)  # largest number of a person's submissions per hour
    most_tests_an_hour: Mapped[int] = mapped_column(default=10)  # largest number of a person's tests per hour
    cudnn_ms: Mapped[Optional[float]]  # cuDNN's time for the same layers and device; a line in the chart
    names_open: Mapped[bool] = mapped_column(default=False)  # whether everyone sees names in the ranking
    created_at: Mapped[datetime] = mapped_column(default=now)
    finalised_at: Mapped[Optional[datetime]]  # time at which the ranking was declared final
    people: Mapped[List["Person"]] = relationship(back_populates="of_class")


class Team(Base):
    __tablename__ = "teams"
    id: Mapped[int] = mapped_column(primary_key=True)
    class_id: Mapped[int] = mapped_column(ForeignKey("classes.id"))
    name: Mapped[str]
    pseudonym: Mapped[str]
    __table_args__ = (
        UniqueConstraint("class_id", "name"),
        UniqueConstraint("class_id", "pseudonym", name="uq_teams_p"),
    )


class Person(Base):
    """A member of a class. Somebody in two classes has two rows, each with its own tokens."""

    __tablename__ = "people"
    id: Mapped[int] = mapped_column(primary_key=True)
    class_id: Mapped[int] = mapped_column(ForeignKey("classes.id"))
    team_id: Mapped[Optional[int]] = mapped_column(ForeignKey("teams.id"))
    name: Mapped[str]  # from the class list, unique in the class
    role: Mapped[str] = mapped_column(String(20), default=STUDENT)
    pseudonym: Mapped[str]
    last_round: Mapped[int] = mapped_column(default=-1)  # round of the person's last job, see queue.py
    created_at: Mapped[datetime] = mapped_column(default=now)
    of_class: Mapped[Class] = relationship(back_populates="people")
    team: Mapped[Optional[Team]] = relationship()
    __table_args__ = (
        UniqueConstraint("class_id", "name"),
        UniqueConstraint("class_id", "pseudonym", name="uq_people_p"),
        CheckConstraint("role IN ('student', 'assistant', 'instructor')", name="role"),
    )


class Token(Base):
    """A person's token: its public part `selector`, by which the row is found, and the hash of its secret part."""

    __tablename__ = "tokens"
    id: Mapped[int] = mapped_column(primary_key=True)
    person_id: Mapped[int] = mapped_column(ForeignKey("people.id"), index=True)
    selector: Mapped[str] = mapped_column(String(32), unique=True)
    hashed: Mapped[str] = mapped_column(String(64))  # SHA-256 of the secret part, which has 256 random bits
    created_at: Mapped[datetime] = mapped_column(default=now)
    revoked_at: Mapped[Optional[datetime]]
    person: Mapped[Person] = relationship()


class WebSession(Base):
    __tablename__ = "sessions"
    id: Mapped[int] = mapped_column(primary_key=True)
    person_id: Mapped[int] = mapped_column(ForeignKey("people.id"), index=True)
    token_id: Mapped[int] = mapped_column(ForeignKey("tokens.id"))  # revoking this token ends the session
    hashed: Mapped[str] = mapped_column(String(64), unique=True)  # SHA-256 of the cookie's value
    csrf: Mapped[str] = mapped_column(String(64))  # CSRF token of the session's forms
    created_at: Mapped[datetime] = mapped_column(default=now)
    expires_at: Mapped[datetime]
    person: Mapped[Person] = relationship()
    token: Mapped[Token] = relationship()


class SubmissionRow(Base):
    """A submission. Its bytes are a row of `contents`, written in the same transaction."""

    __tablename__ = "submissions"
    id: Mapped[str] = mapped_column(String(32), primary_key=True, default=short_id)
    class_id: Mapped[int] = mapped_column(ForeignKey("classes.id"))
    person_id: Mapped[int] = mapped_column(ForeignKey("people.id"))
    key: Mapped[str] = mapped_column(String(128))  # from the client, or the digest; unique per person
    digest: Mapped[str] = mapped_column(String(64))  # SHA-256 of the upload, hexadecimal
    name: Mapped[str]  # the file's name, see `admission.safe_name`
    size: Mapped[int]  # bytes
    final: Mapped[bool] = mapped_column(default=False)  # whether it was submitted as final, to count for marks
    test: Mapped[bool] = mapped_column(default=False)  # whether it has neither a rank nor marks
    status: Mapped[str] = mapped_column(String(20), default=QUEUED)
    spent: Mapped[float] = mapped_column(default=0.0)  # device seconds of the first judging, even if cancelled
    submitted_at: Mapped[datetime] = mapped_column(default=now)
    person: Mapped[Person] = relationship()
    of_class: Mapped[Class] = relationship()
    judgements: Mapped[List["Judgement"]] = relationship(order_by="Judgement.id", back_populates="submission")

    @property
    def author(self) -> str:
        return self.person.name

    @property
    def judgement(self) -> Optional["Judgement"]:
        return next((one for one in self.judgements if one.purpose in OWN), None)

    @property
    def finals(self) -> List["Judgement"]:
        return [one for one in self.judgements if one.purpose not in OWN]

    __table_args__ = (
        UniqueConstraint("person_id", "key"),
        Index("ix_submissions_person", "person_id", "submitted_at"),
        Index("ix_submissions_class", "class_id", "status"),
    )


class Content(Base):
    __tablename__ = "contents"
    submission_id: Mapped[str] = mapped_column(ForeignKey("submissions.id"), primary_key=True)
    content: Mapped[bytes] = mapped_column(LargeBinary)


class JobRow(Base):
    __tablename__ = "jobs"
    id: Mapped[int] = mapped_column(primary_key=True)
    submission_id: Mapped[str] = mapped_column(ForeignKey("submissions.id"))
    purpose: Mapped[str] = mapped_column(String(20), default=FIRST)
    backend: Mapped[str] = mapped_column(String(8))
    state: Mapped[str] = mapped_column(String(20), default=QUEUED)  # queued, running, done, cancelled
    round: Mapped[int]  # the queue is ordered by this first, see queue.py
    queued_at: Mapped[datetime] = mapped_column(default=now)
    started_at: Mapped[Optional[datetime]]
    attempts: Mapped[int] = mapped_column(default=0)  # number of graders that died or failed during the job
    lease: Mapped[Optional[str]] = mapped_column(String(64))  # only the dispatcher that holds it may end the job
    lease_until: Mapped[Optional[datetime]]  # time at which the lease expires
    submission: Mapped[SubmissionRow] = relationship()
    __table_args__ = (
        UniqueConstraint("submission_id", "purpose"),
        Index("ix_jobs_queue", "backend", "state", "round", "queued_at", "id"),
        Index("ix_jobs_running", "state", "lease_until"),
    )


class Judgement(Base):
    """The outcome of a job. The database allows one per submission and purpose."""

    __tablename__ = "judgements"
    id: Mapped[int] = mapped_column(primary_key=True)
    submission_id: Mapped[str] = mapped_column(ForeignKey("submissions.id"))
    purpose: Mapped[str] = mapped_column(String(20))
    status: Mapped[str] = mapped_column(String(20))  # judged, incorrect, refused, failed
    reason: Mapped[str] = mapped_column(Text, default="")
    ranked: Mapped[bool] = mapped_column(default=False)
    op_ms: Mapped[Optional[float]]  # sum of the layers' Op Times
    layer_ms: Mapped[Optional[float]]  # sum of the layers' Layer Times
    points: Mapped[float] = mapped_column(default=0.0)
    out_of: Mapped[float] = mapped_column(default=0.0)
    verdict: Mapped[str] = mapped_column(Text, default="", deferred=True)  # the grader's document, JSON
    seconds: Mapped[float] = mapped_column(default=0.0)  # time for which the grader ran
    started_at: Mapped[datetime]
    finished_at: Mapped[datetime] = mapped_column(default=now)
    node: Mapped[str] = mapped_column(default="")  # name of the machine that judged
    submission: Mapped[SubmissionRow] = relationship(back_populates="judgements")
    __table_args__ = (UniqueConstraint("submission_id", "purpose"),)


class LogLine(Base):
    __tablename__ = "log_lines"
    id: Mapped[int] = mapped_column(primary_key=True)
    submission_id: Mapped[str] = mapped_column(ForeignKey("submissions.id"))
    at: Mapped[datetime] = mapped_column(default=now)
    text: Mapped[str] = mapped_column(Text)
    __table_args__ = (Index("ix_log_lines_submission", "submission_id", "id"),)


class QueueRow(Base):
    __tablename__ = "queues"
    backend: Mapped[str] = mapped_column(String(8), primary_key=True)
    round: Mapped[int] = mapped_column(default=0)  # largest round of the jobs started so far
    slots: Mapped[int] = mapped_column(default=0)  # number of graders; 0 before the dispatcher's first report
    seen_at: Mapped[Optional[datetime]]  # time of the dispatcher's last report


class AuditEntry(Base):
    """An entry of the audit log. Rows are never deleted, and only their `times` changes (see `audit.count`)."""

    __tablename__ = "audit"
    id: Mapped[int] = mapped_column(primary_key=True)
    at: Mapped[datetime] = mapped_column(default=now, index=True)
    class_id: Mapped[Optional[int]] = mapped_column(ForeignKey("classes.id"))
    actor: Mapped[str]  # a person's name, or "command line"
    action: Mapped[str] = mapped_column(String(40))
    what: Mapped[str] = mapped_column(Text, default="")  # object of the action, such as a submission's identifier
    address: Mapped[str] = mapped_column(String(64), default="")
    times: Mapped[int] = mapped_column(default=1, server_default="1")  # how often the action happened that day
