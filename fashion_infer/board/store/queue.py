"""The queue of jobs, with a fair order, leases, and exactly one judgement per job.

A person's waiting submissions have increasing round numbers, and the queue is ordered by (round, time of arrival). A
new submission gets the round after that of the person's previous submission, but no earlier round than the one being
served. If a person sends ten submissions at once, they get ten rounds, and another person's later submission gets the
first of these rounds (start-time fair queueing).

A job is started under a lease that its dispatcher renews. When the lease expires, or its dispatcher is known to be
dead, the job returns to its old position in the queue. Only the holder of the lease may end the job, in the transaction
that writes the judgement. There is one judgement per submission and purpose, so that a job may run several times but
is judged once.
"""

import secrets
from datetime import datetime, timedelta
from typing import List, NamedTuple, Optional

from sqlalchemy import and_, select, update
from sqlalchemy.orm import Session

from .audit import record
from .models import Content, JobRow, Judgement, LogLine, Person, QueueRow, SubmissionRow
from .types import CANCELLED, DONE, FAILED, QUEUED, RUNNING, now

LEASE = timedelta(seconds=30)
MOST_FAILURES = 3  # number of reports that a machine could not judge, after which a job is judged as failed
MOST_DEATHS = 20  # number of graders that died during a job, after which the job is judged as failed


class Claimed(NamedTuple):
    """A claimed job, with everything that a grader needs."""

    job: int
    lease: str
    submission: str
    purpose: str
    backend: str
    edition: str
    rubric: str  # TOML
    name: str  # the file's name
    content: bytes


class JudgingOutcome(NamedTuple):
    """The outcome of a judging."""

    status: str  # judged, refused, failed
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
    """Return the row of a backend's queue, created if necessary, and locked against other writers if `lock`."""
    query = select(QueueRow).where(QueueRow.backend == backend)
    found = session.scalar(query.with_for_update() if lock else query)
    if found is None:
        # With PostgreSQL, two writers may get here concurrently. The second waits in the insert, then finds the row.
        if session.get_bind().dialect.name == "postgresql":
            from sqlalchemy.dialects.postgresql import insert

            session.execute(insert(QueueRow).values(backend=backend, round=0, slots=1).on_conflict_do_nothing())
        else:
            session.add(QueueRow(backend=backend, round=0, slots=1))
            session.flush()
        found = session.scalar(query.with_for_update() if lock else query)
    assert found is not None
    return found


def states(session: Session) -> List[QueueRow]:
    """Return the rows of all backends' queues."""
    return list(session.scalars(select(QueueRow)))


def enqueue(session: Session, submission: SubmissionRow, backend: str, purpose: str, at: datetime) -> JobRow:
    """Put a submission into its queue."""
    person = session.get_one(Person, submission.person_id)
    queue = state_of(session, backend)
    job = JobRow(submission_id=submission.id, purpose=purpose, backend=backend, queued_at=at,
              round=max(queue.round, person.last_round + 1))  # fmt: skip
    person.last_round = job.round
    session.add(job)
    return job


def claim(session: Session, backend: str, owner: str = "", at: Optional[datetime] = None) -> Optional[Claimed]:
    """Start the next job of a queue under a new lease, which begins with the owner's name; None if no job waits."""
    at = at or now()
    queue = state_of(session, backend, lock=True)
    job = session.scalar(
        select(JobRow).where(JobRow.backend == backend, JobRow.state == QUEUED)
        .order_by(JobRow.round, JobRow.queued_at, JobRow.id).limit(1).with_for_update(of=JobRow)
    )  # fmt: skip
    if job is None:
        return None
    job.state, job.lease, job.lease_until, job.started_at = RUNNING, f"{owner}.{secrets.token_hex(12)}", at + LEASE, at
    queue.round = max(queue.round, job.round)
    submission = job.submission
    if job.purpose == "first":
        submission.status = RUNNING
    of_class = submission.of_class
    content = session.get_one(Content, submission.id).content
    return Claimed(job.id, job.lease, submission.id, job.purpose, backend, of_class.edition, of_class.rubric,
                   submission.name, content)  # fmt: skip


def renew(session: Session, leases: List[str], at: Optional[datetime] = None) -> List[str]:
    """Renew leases and return those that are still valid.

    The jobs of the other leases were cancelled or reassigned, and their graders must be stopped.
    """
    if not leases:
        return []
    at = at or now()
    mine = and_(JobRow.lease.in_(leases), JobRow.state == RUNNING)
    held = list(session.scalars(select(JobRow.lease).where(mine)))
    session.execute(update(JobRow).where(mine).values(lease_until=at + LEASE))
    return [lease for lease in held if lease is not None]


def give_back(
    session: Session, lease: str, why: str, outcome: Optional[JudgingOutcome] = None, counted: bool = True,
    at: Optional[datetime] = None,
) -> None:  # fmt: skip
    """Return a job to its position because its grader died, or reported in `outcome` that it could not judge.

    After too many calls with `counted`, the job is judged as failed.
    """
    job = _held(session, lease)
    if job is None:
        return
    job.attempts += counted
    if counted and job.attempts >= (MOST_DEATHS if outcome is None else MOST_FAILURES):
        finish(session, lease, outcome or JudgingOutcome(FAILED, f"its grader died {job.attempts} times: {why}"), at)
        return
    _waits_again(session, job, why)


def recover(session: Session, owner: Optional[str] = None, at: Optional[datetime] = None) -> int:
    """Return jobs with expired leases, or all jobs of a dead owner, to the queue, and return their number."""
    dead = JobRow.lease_until < (at or now())
    if owner is not None:
        dead = JobRow.lease.startswith(f"{owner}.", autoescape=True)
    jobs = session.scalars(select(JobRow).where(JobRow.state == RUNNING, dead).with_for_update(of=JobRow)).all()
    for job in jobs:
        _waits_again(session, job, "the service was interrupted")
    return len(jobs)


def _held(session: Session, lease: str) -> Optional[JobRow]:
    """Return the job that runs under a lease, locked; None when the lease is no longer valid."""
    mine = select(JobRow).where(JobRow.lease == lease, JobRow.state == RUNNING)
    return session.scalar(mine.with_for_update(of=JobRow))


def _waits_again(session: Session, job: JobRow, why: str) -> None:
    job.state, job.lease, job.lease_until, job.started_at = QUEUED, None, None, None
    if job.purpose == "first":
        job.submission.status = QUEUED
    log(session, job.submission_id, [f"{why}: queued again at its old place"])


def finish(session: Session, lease: str, outcome: JudgingOutcome, at: Optional[datetime] = None) -> bool:
    """Write a judgement and end its job; False, without writing, when the lease is no longer valid."""
    at = at or now()
    job = _held(session, lease)
    if job is None:
        return False
    session.add(Judgement(submission_id=job.submission_id, purpose=job.purpose, started_at=job.started_at or at,
                          finished_at=at, **outcome._asdict()))  # fmt: skip
    job.state, job.lease, job.lease_until = DONE, None, None
    if job.purpose == "first":
        job.submission.status = outcome.status
        job.submission.spent = outcome.seconds
    session.flush()
    return True


def cancel(session: Session, submission: SubmissionRow, actor: str, address: str = "") -> bool:
    """Cancel a queued or running submission; False when it has already ended."""
    active = select(JobRow).where(JobRow.submission_id == submission.id, JobRow.state.in_((QUEUED, RUNNING)))
    jobs = session.scalars(active.with_for_update(of=JobRow)).all()
    if not jobs:
        return False
    for job in jobs:
        if job.purpose == "first" and job.started_at is not None:
            submission.spent = (now() - job.started_at).total_seconds()
        job.state, job.lease, job.lease_until = CANCELLED, None, None
        if job.purpose == "first":
            submission.status = CANCELLED
    log(session, submission.id, [f"cancelled by {actor}"])
    record(session, actor, "cancel", submission.id, submission.class_id, address)
    return True


def log(session: Session, submission_id: str, lines: List[str], at: Optional[datetime] = None) -> None:
    """Add lines to a submission's log."""
    at = at or now()
    session.add_all([LogLine(submission_id=submission_id, at=at, text=line[:2000]) for line in lines])
