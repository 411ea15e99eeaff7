"""Estimates a submission's place and wait from the queue, the number of graders, and the last judgings of its class."""

import heapq
import statistics
from datetime import datetime, timedelta
from typing import Dict, NamedTuple, Optional

from sqlalchemy import select
from sqlalchemy.orm import Session

from .models import JobRow, Judgement, QueueRow, SubmissionRow
from .types import QUEUED, RUNNING, now

_LATELY = 20  # number of latest judgings of a class of which the median is used
_LAST, _LEAST = timedelta(minutes=1), 10.0  # time in which arrivals are counted; shortest time for a rate, in s
_UNKNOWN = 30.0  # seconds assumed before a class's first judging: the time of a GPU submission of fa2017


class ExpectedWait(NamedTuple):
    """A job's position in the queue."""

    place: int  # 1 is the next; 0 while it runs
    ahead: int  # jobs that start before it
    start_in: Optional[float]  # seconds until it starts, 0 while it runs; None while no grader is running
    end_in: Optional[float]  # seconds until it ends


def expected(session: Session, submission: SubmissionRow, at: Optional[datetime] = None) -> Optional[ExpectedWait]:
    """Return the place and expected wait of a submission's first judging; None if it neither waits nor runs."""
    job = select(JobRow).where(JobRow.submission_id == submission.id, JobRow.purpose == "first")
    found = session.scalar(job)
    return schedule(session, found.backend, at).get(found.id) if found is not None else None


def slots_of(session: Session, backend: str) -> int:
    """Return the number of graders of a backend from its dispatcher's last report; 1 before the first report."""
    found = session.scalar(select(QueueRow.slots).where(QueueRow.backend == backend))
    return 1 if found is None else found


def schedule(session: Session, backend: str, at: Optional[datetime] = None) -> Dict[int, ExpectedWait]:
    """Return the place and expected wait of every job of a queue, by job id, in the queue's order."""
    at = at or now()
    jobs = session.execute(
        select(JobRow.id, JobRow.state, JobRow.started_at, JobRow.round, SubmissionRow.class_id)
        .join(JobRow.submission).where(JobRow.backend == backend, JobRow.state.in_((QUEUED, RUNNING)))
        .order_by(JobRow.state.desc(), JobRow.round, JobRow.queued_at, JobRow.id)  # "running" after "queued"
    ).all()  # fmt: skip
    takes, arrivals, slots = _Takes(session), _Arrivals(session, backend, at), slots_of(session, backend)
    found: Dict[int, ExpectedWait] = {}
    for job in jobs:
        if job.state == RUNNING:
            own, ran = takes.seconds(job.class_id), (at - job.started_at).total_seconds()
            found[job.id] = ExpectedWait(0, 0, 0.0, max(own - ran, own / 10))  # if overdue, a tenth of its time
    free = sorted(wait.end_in or 0.0 for wait in found.values())[:slots]  # seconds until each grader is free
    free += [0.0] * (slots - len(free))
    heapq.heapify(free)
    for ahead, job in enumerate(job for job in jobs if job.state == QUEUED):
        if not slots:
            found[job.id] = ExpectedWait(ahead + 1, ahead, None, None)
            continue
        own = takes.seconds(job.class_id)
        start = free[0] * arrivals.longer(job.round, own / slots)
        found[job.id] = ExpectedWait(ahead + 1, ahead, start, start + own)
        heapq.heapreplace(free, free[0] + own)
    return found


class _Arrivals:
    """The submissions of the last minute, from which future arrivals are estimated."""

    def __init__(self, session: Session, backend: str, at: datetime):
        self._serving = session.scalar(select(QueueRow.round).where(QueueRow.backend == backend)) or 0
        came = select(JobRow.round, JobRow.queued_at).where(JobRow.backend == backend, JobRow.queued_at > at - _LAST)
        self._came = [(round_, (at - when).total_seconds()) for round_, when in session.execute(came)]

    def longer(self, round_: int, takes: float) -> float:
        """Return how many times longer a job waits because later submissions are served before it.

        A job of the current round cannot be overtaken. A job of a later round is overtaken by submissions of earlier
        rounds. They are assumed to arrive at the last minute's rate and to take `takes` seconds each. How long they
        keep arriving is unknown, so the factor is at most 2.
        """
        before = [ago for round_of, ago in self._came if round_of < round_]
        if round_ <= self._serving or not before:
            return 1.0
        busy = len(before) * takes / max(*before, _LEAST)
        return min(2.0, 1 / (1 - busy)) if busy < 1 else 2.0


class _Takes:
    """Duration of a judging of a class, looked up once per class."""

    def __init__(self, session: Session):
        self._session = session
        self._known: Dict[int, float] = {}

    def seconds(self, class_id: int) -> float:
        """Return the median of the last judgings, from claim to judgement."""
        if class_id not in self._known:
            # Read judgements from the newest back until there are enough. "+ 0" prevents the database from first
            # collecting all submissions of the class.
            rows = self._session.execute(
                select(Judgement.started_at, Judgement.finished_at).join(Judgement.submission)
                .where(SubmissionRow.class_id + 0 == class_id).order_by(Judgement.id.desc()).limit(_LATELY)
            ).all()  # fmt: skip
            took = [(end - start).total_seconds() for start, end in rows]
            self._known[class_id] = max(statistics.median(took), 0.01) if took else _UNKNOWN
        return self._known[class_id]
