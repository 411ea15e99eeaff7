"""The queue: fair order, leases, and ends that happen once.

Order. A person's waiting submissions have rising round numbers; the queue goes by (round, time of arrival). A new one
gets the round after the person's last one, and none before the round that is being served: who submits ten at once
stands in ten rounds, and who comes later with one stands in the first of them (start-time fair queueing).

A job is started under a lease that its dispatcher renews. A lease that ran out, or whose dispatcher is known to be
dead, gives the job back at its old place. Only the holder of the lease may end it, in the transaction that writes the
judgement, and a judgement is unique by submission and purpose: run at least once, judged once.
"""

import secrets
from datetime import datetime, timedelta
from typing import List, NamedTuple, Optional

from sqlalchemy import and_, or_, select, update
from sqlalchemy.orm import Session

from .audit import record
from .models import Class, Content, Job, Judgement, LogLine, Person, Queue, Submission
from .types import CANCELLED, DONE, FAILED, QUEUED, RUNNING, now

LEASE = timedelta(seconds=30)
MOST_FAILURES = 3  # of machines that say that they cannot judge
MOST_DEATHS = 20  # of graders under one job: then it is the job


class Claimed(NamedTuple):
    """A job to run, with all that a grader needs."""

    job: int
    lease: str
    submission: str
    purpose: str
    backend: str
    edition: str
    rubric: str  # TOML
    name: str  # the file's
    content: bytes


class Outcome(NamedTuple):
    """What a grader found."""

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


def state_of(session: Session, backend: str, lock: bool = False) -> Queue:
    """A backend's row, made if need be; locked against other writers until the transaction ends."""
    query = select(Queue).where(Queue.backend == backend)
    found = session.scalar(query.with_for_update() if lock else query)
    if found is None:
        # With PostgreSQL two may come here at once: the second waits in the insert, and then finds the first's.
        if session.get_bind().dialect.name == "postgresql":
            from sqlalchemy.dialects.postgresql import insert

            session.execute(insert(Queue).values(backend=backend, round=0, slots=1).on_conflict_do_nothing())
        else:
            session.add(Queue(backend=backend, round=0, slots=1))
            session.flush()
        found = session.scalar(query.with_for_update() if lock else query)
    assert found is not None
    return found


def states(session: Session) -> List[Queue]:
    """Every backend's row."""
    return list(session.scalars(select(Queue)))


def enqueue(session: Session, submission: Submission, backend: str, purpose: str, at: datetime) -> Job:
    """Put a submission into its queue."""
    person = session.get_one(Person, submission.person_id)
    queue = state_of(session, backend)
    job = Job(submission_id=submission.id, purpose=purpose, backend=backend, queued_at=at,
              round=max(queue.round, person.last_round + 1))  # fmt: skip
    person.last_round = job.round
    session.add(job)
    return job


def ahead_of(job: Job):
    """The condition of jobs that stand before a job in its queue."""
    before = or_(Job.round < job.round, and_(Job.round == job.round, or_(
        Job.queued_at < job.queued_at, and_(Job.queued_at == job.queued_at, Job.id < job.id))))  # fmt: skip
    return and_(Job.backend == job.backend, Job.state == QUEUED, before)


def claim(session: Session, backend: str, owner: str = "", at: Optional[datetime] = None) -> Optional[Claimed]:
    """Take the next job of a queue under a fresh lease, which begins with its owner's name; None when nothing waits."""
    at = at or now()
    queue = state_of(session, backend, lock=True)
    job = session.scalar(
        select(Job).where(Job.backend == backend, Job.state == QUEUED)
        .order_by(Job.round, Job.queued_at, Job.id).limit(1).with_for_update(of=Job)
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
    """Renew leases; those that still hold. A job of any other was cancelled or is somebody else's: stop its grader."""
    if not leases:
        return []
    at = at or now()
    mine = and_(Job.lease.in_(leases), Job.state == RUNNING)
    held = list(session.scalars(select(Job.lease).where(mine)))
    session.execute(update(Job).where(mine).values(lease_until=at + LEASE))
    return [lease for lease in held if lease is not None]


def give_back(
    session: Session, lease: str, why: str, outcome: Optional[Outcome] = None, counted: bool = True,
    at: Optional[datetime] = None,
) -> None:  # fmt: skip
    """A grader died, or its machine could not judge and says so in an outcome: the job goes back to its place. After
    too many of these that are `counted` it is judged as failed."""
    job = session.scalar(select(Job).where(Job.lease == lease, Job.state == RUNNING).with_for_update(of=Job))
    if job is None:
        return
    job.attempts += counted
    if counted and job.attempts >= (MOST_DEATHS if outcome is None else MOST_FAILURES):
        finish(session, lease, outcome or Outcome(FAILED, f"its grader died {job.attempts} times: {why}"), at)
        return
    _waits_again(session, job, why)


def recover(session: Session, owner: Optional[str] = None, at: Optional[datetime] = None) -> int:
    """Give back jobs of dead dispatchers: those whose lease ran out, or all of an owner that is known to be dead. How
    many those were."""
    dead = Job.lease_until < (at or now()) if owner is None else Job.lease.startswith(f"{owner}.", autoescape=True)
    jobs = session.scalars(select(Job).where(Job.state == RUNNING, dead).with_for_update(of=Job)).all()
    for job in jobs:
        _waits_again(session, job, "the service was interrupted")
    return len(jobs)


def _waits_again(session: Session, job: Job, why: str) -> None:
    job.state, job.lease, job.lease_until, job.started_at = QUEUED, None, None, None
    if job.purpose == "first":
        job.submission.status = QUEUED
    log(session, job.submission_id, [f"{why}: it waits again, at its old place"])


def finish(session: Session, lease: str, outcome: Outcome, at: Optional[datetime] = None) -> bool:
    """Write a judgement and end its job; False, and nothing is written, when the lease does not hold any more."""
    at = at or now()
    job = session.scalar(select(Job).where(Job.lease == lease, Job.state == RUNNING).with_for_update(of=Job))
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


def cancel(session: Session, submission: Submission, actor: str, address: str = "") -> bool:
    """Take a submission that waits or runs out of the queue; False when it has ended already."""
    jobs = session.scalars(
        select(Job).where(Job.submission_id == submission.id, Job.state.in_((QUEUED, RUNNING))).with_for_update(of=Job)
    ).all()
    if not jobs:
        return False
    for job in jobs:
        if job.purpose == "first" and job.started_at is not None:
            submission.spent = (now() - job.started_at).total_seconds()
        job.state, job.lease, job.lease_until = CANCELLED, None, None
        if job.purpose == "first":
            submission.status = CANCELLED
    log(session, submission.id, [f"cancelled by {actor}"])
    record(session, actor, "cancel", submission.id, session.get_one(Class, submission.class_id), address)
    return True


def log(session: Session, submission_id: str, lines: List[str], at: Optional[datetime] = None) -> None:
    """Add lines to a submission's log."""
    at = at or now()
    session.add_all([LogLine(submission_id=submission_id, at=at, text=line[:2000]) for line in lines])
