"""The queues of jobs, one per backend, with a fair order, leases, and at most one judgement per job.

A queue is ordered by round, then by time of arrival (start-time fair queueing). A new job gets the round after that of
the person's previous job, but at least the one being served: of ten submissions at once, the second waits for other
people's first. Only the holder of a lease may end its job, so a job may run several times, but is judged once.
"""

import secrets
from datetime import datetime, timedelta
from typing import List, NamedTuple, Optional

from sqlalchemy import and_, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from .audit import record
from .models import (
    CANCELLED,
    DONE,
    FAILED,
    FIRST,
    OWN,
    QUEUED,
    RUNNING,
    TEST,
    Content,
    JobRow,
    Judgement,
    LogLine,
    Person,
    QueueRow,
    SubmissionRow,
    now,
)

LEASE = timedelta(seconds=30)  # time after which a lease expires if it is not renewed
MOST_FAILURES = 3  # a job is judged as failed after this many reports that a machine could not judge it
MOST_DEATHS = 20  # a job is judged as failed after this many graders died during it


class Claimed(NamedTuple):
    lease: str
    submission: str  # the submission's identifier
    purpose: str
    backend: str
    rubric: str  # TOML
    name: str  # the file's name
    content: bytes  # the file's bytes


class JudgingOutcome(NamedTuple):
    status: str  # judged, incorrect, refused, failed
    reason: str = ""
    ranked: bool = False
    op_ms: Optional[float] = None
    layer_ms: Optional[float] = None
    points: float = 0.0
    out_of: float = 0.0
    verdict: str = ""
    seconds: float = 0.0
    node: str = ""


def state_of(session: Session, backend: str, lock: bool = False) -> QueueRow:
    """Return the row of a backend's queue, which is created if it is missing. `lock` locks it against other writers."""
    query = select(QueueRow).where(QueueRow.backend == backend)
    found = session.scalar(query.with_for_update() if lock else query)
    if found is None:
        # With PostgreSQL, two writers may come here at the same time. The second one's insert waits, and does nothing.
        insert = postgresql.insert if session.get_bind().dialect.name == "postgresql" else sqlite.insert
        session.execute(insert(QueueRow).values(backend=backend, round=0, slots=0).on_conflict_do_nothing())
        found = session.scalar(query.with_for_update() if lock else query)
    assert found is not None
    return found


def enqueue(session: Session, submission: SubmissionRow, backend: str, purpose: str, at: datetime) -> JobRow:
    person = session.get_one(Person, submission.person_id)
    queue = state_of(session, backend)
    job = JobRow(
        submission_id=submission.id,
        purpose=purpose,
        backend=backend,
        queued_at=at,
        round=max(queue.round, person.last_round + 1),
    )
    person.last_round = job.round
    session.add(job)
    return job


def claim(session: Session, backend: str, owner: str = "", at: Optional[datetime] = None) -> Optional[Claimed]:
    """Mark a queue's next job as running, under a new lease that begins with `owner`; return it, None if none waits."""
    at = at or now()
    queue = state_of(session, backend, lock=True)
    job = session.scalar(
        select(JobRow)
        .where(JobRow.backend == backend, JobRow.state == QUEUED)
        .order_by(JobRow.round, JobRow.queued_at, JobRow.id)
        .limit(1)
        .with_for_update(of=JobRow)
    )
    if job is None:
        return None
    job.state, job.lease, job.lease_until, job.started_at = RUNNING, f"{owner}.{secrets.token_hex(12)}", at + LEASE, at
    queue.round = max(queue.round, job.round)
    submission = job.submission
    if job.purpose in OWN:
        submission.status = RUNNING
    rubric, content = submission.of_class.rubric, session.get_one(Content, submission.id).content
    return Claimed(job.lease, submission.id, job.purpose, backend, rubric, submission.name, content)


def renew(session: Session, leases: List[str], at: Optional[datetime] = None) -> List[str]:
    """Renew leases, and return those that are still valid. The caller must stop the graders of the others."""
    if not leases:
        return []
    at = at or now()
    mine = and_(JobRow.lease.in_(leases), JobRow.state == RUNNING)
    held = list(session.scalars(select(JobRow.lease).where(mine)))
    session.execute(update(JobRow).where(mine).values(lease_until=at + LEASE))
    return [lease for lease in held if lease is not None]


def give_back(
    session: Session,
    lease: str,
    why: str,
    outcome: Optional[JudgingOutcome] = None,
    counted: bool = True,
    at: Optional[datetime] = None,
) -> None:
    """Return a job whose grader died or could not judge it to its old position, or judge it failed at the limit."""
    job = _running(session, lease)
    if job is None:
        return
    job.attempts += counted
    if counted and job.attempts >= (MOST_DEATHS if outcome is None else MOST_FAILURES):
        finish(session, lease, outcome or JudgingOutcome(FAILED, f"its grader died {job.attempts} times: {why}"), at)
        return
    _requeue(session, job, why)


def recover(session: Session, owner: Optional[str] = None, at: Optional[datetime] = None) -> int:
    """Move running jobs back to the queue, and return their number: those of `owner`; for None, expired ones."""
    dead = JobRow.lease_until < (at or now())
    if owner is not None:
        dead = JobRow.lease.startswith(f"{owner}.", autoescape=True)
    jobs = session.scalars(select(JobRow).where(JobRow.state == RUNNING, dead).with_for_update(of=JobRow)).all()
    for job in jobs:
        _requeue(session, job, "the service was interrupted")
    return len(jobs)


def _running(session: Session, lease: str) -> Optional[JobRow]:
    """Return the job that runs under a lease, and lock its row; None if the lease is no longer valid."""
    mine = select(JobRow).where(JobRow.lease == lease, JobRow.state == RUNNING)
    return session.scalar(mine.with_for_update(of=JobRow))


def _requeue(session: Session, job: JobRow, why: str) -> None:
    job.state, job.lease, job.lease_until, job.started_at = QUEUED, None, None, None
    if job.purpose in OWN:
        job.submission.status = QUEUED
    log(session, job.submission_id, [f"{why}: queued again at its old position"])


def finish(session: Session, lease: str, outcome: JudgingOutcome, at: Optional[datetime] = None) -> bool:
    """Write a judgement, and end its job. Return False, without writing anything, if the lease is no longer valid."""
    at = at or now()
    job = _running(session, lease)
    if job is None:
        return False
    outcome = outcome._replace(ranked=outcome.ranked and job.purpose != TEST)
    session.add(
        Judgement(
            submission_id=job.submission_id,
            purpose=job.purpose,
            started_at=job.started_at or at,
            finished_at=at,
            **outcome._asdict(),
        )
    )
    job.state, job.lease, job.lease_until = DONE, None, None
    if job.purpose in OWN:
        job.submission.status = outcome.status
    if job.purpose == FIRST:
        job.submission.spent = outcome.seconds
    session.flush()
    return True


def cancel(session: Session, submission: SubmissionRow, actor: str, address: str = "") -> bool:
    active = select(JobRow).where(JobRow.submission_id == submission.id, JobRow.state.in_((QUEUED, RUNNING)))
    jobs = session.scalars(active.with_for_update(of=JobRow)).all()
    if not jobs:
        return False
    for job in jobs:
        if job.purpose == FIRST and job.started_at is not None:
            submission.spent = (now() - job.started_at).total_seconds()
        job.state, job.lease, job.lease_until = CANCELLED, None, None
        if job.purpose in OWN:
            submission.status = CANCELLED
    log(session, submission.id, [f"cancelled by {actor}"])
    record(session, actor, "cancel", submission.id, submission.class_id, address)
    return True


def log(session: Session, submission_id: str, lines: List[str]) -> None:
    at = now()
    session.add_all([LogLine(submission_id=submission_id, at=at, text=line[:2000]) for line in lines])
