"""Estimates when a waiting submission starts and ends, from the queue, the graders and its class's last judgings."""

import functools
import heapq
import statistics
from dataclasses import dataclass
from datetime import datetime
from typing import Dict, Optional

from sqlalchemy import select
from sqlalchemy.orm import Session

from .models import OWN, QUEUED, RUNNING, JobRow, Judgement, QueueRow, SubmissionRow, now

_LATEST = 20  # number of a class's last judgings whose median duration is the expected duration
_UNKNOWN = 30.0  # expected seconds of a class's first judging: the time of a GPU submission of fa2017


@dataclass(frozen=True)
class ExpectedWait:
    """A job's position in the queue, and its expected times. The times are None (null) while no grader is running."""

    place: int  # 1 for the job that starts next; 0 for a running job
    ahead: int  # number of waiting jobs before this one
    start_in: Optional[float]  # seconds until the job starts; 0 for a running job
    end_in: Optional[float]  # seconds until the job ends


def expected(session: Session, submission: SubmissionRow, at: Optional[datetime] = None) -> Optional[ExpectedWait]:
    job = select(JobRow).where(JobRow.submission_id == submission.id, JobRow.purpose.in_(OWN))
    found = session.scalar(job)
    return schedule(session, found.backend, at).get(found.id) if found is not None else None


def slots_of(session: Session, backend: str) -> int:
    return session.scalar(select(QueueRow.slots).where(QueueRow.backend == backend)) or 0


def schedule(session: Session, backend: str, at: Optional[datetime] = None) -> Dict[int, ExpectedWait]:
    """Return the expected wait of every running or waiting job of a queue, by the job's id, in the queue's order."""
    at = at or now()
    jobs = session.execute(
        select(JobRow.id, JobRow.state, JobRow.started_at, JobRow.round, SubmissionRow.class_id)
        .join(JobRow.submission)
        .where(JobRow.backend == backend, JobRow.state.in_((QUEUED, RUNNING)))
        .order_by(JobRow.state.desc(), JobRow.round, JobRow.queued_at, JobRow.id)  # running jobs first
    ).all()
    duration = functools.lru_cache(maxsize=None)(functools.partial(_duration, session))
    slots = slots_of(session, backend)
    found: Dict[int, ExpectedWait] = {}
    for job in jobs:
        if job.state == RUNNING:
            own, ran = duration(job.class_id), (at - job.started_at).total_seconds()
            # An overdue job is expected to run for another tenth of its time.
            found[job.id] = ExpectedWait(0, 0, 0.0, max(own - ran, own / 10))
    free = sorted(wait.end_in or 0.0 for wait in found.values())[:slots]  # seconds until each grader is free
    free += [0.0] * (slots - len(free))
    heapq.heapify(free)
    for ahead, job in enumerate(job for job in jobs if job.state == QUEUED):
        if not slots:
            found[job.id] = ExpectedWait(ahead + 1, ahead, None, None)
            continue
        own = duration(job.class_id)
        start = heapq.heapreplace(free, free[0] + own)
        found[job.id] = ExpectedWait(ahead + 1, ahead, start, start + own)
    return found


def _duration(session: Session, class_id: int) -> float:
    """Return the expected seconds of a judging of the class."""
    # The newest judgements are read first, until enough are found. "+ 0" hides the column from its index, so that the
    # database does not first collect all submissions of the class.
    rows = session.execute(
        select(Judgement.started_at, Judgement.finished_at)
        .join(Judgement.submission)
        .where(SubmissionRow.class_id + 0 == class_id)
        .order_by(Judgement.id.desc())
        .limit(_LATEST)
    ).all()
    took = [(end - start).total_seconds() for start, end in rows]
    return max(statistics.median(took), 0.01) if took else _UNKNOWN
