"""How long a submission is going to wait: its place, the graders that there are, and how long judgings took lately."""

import heapq
import statistics
from datetime import datetime, timedelta
from typing import Dict, List, NamedTuple, Optional, Sequence

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from .models import Job, Judgement, Queue, Submission
from .queue import ahead_of
from .types import QUEUED, RUNNING, now

_LATELY = 20  # judgings of a class whose median counts
_LAST, _LEAST = timedelta(minutes=1), 10.0  # in which arrivals are counted; seconds that a rate is taken of
_UNKNOWN = 30.0  # seconds of a judging before the first of a class: what a GPU submission of fa2017 takes


class Wait(NamedTuple):
    """Where a submission stands."""

    place: int  # 1 is the next; 0 while it runs
    ahead: int  # jobs that will be started before it
    start_in: Optional[float]  # seconds, 0 while it runs; None where no grader is up, and nobody knows
    end_in: Optional[float]  # seconds


def expected(session: Session, submission: Submission, at: Optional[datetime] = None) -> Optional[Wait]:
    """Place and expected wait of a submission's first judging; None when it does not wait or run."""
    at = at or now()
    job = session.scalar(select(Job).where(Job.submission_id == submission.id, Job.purpose == "first"))
    if job is None or job.state not in (QUEUED, RUNNING):
        return None
    takes = _Takes(session)
    running = list(session.execute(
        select(Job.started_at, Submission.class_id).join(Job.submission)
        .where(Job.backend == job.backend, Job.state == RUNNING)
    ))  # fmt: skip
    own = takes.seconds(submission.class_id)
    if job.state == RUNNING:
        assert job.started_at is not None
        return Wait(0, 0, 0.0, left(own, (at - job.started_at).total_seconds()))
    before = list(session.execute(
        select(Submission.class_id, func.count()).select_from(Job).join(Job.submission)
        .where(ahead_of(job)).group_by(Submission.class_id)
    ))  # fmt: skip
    busy = [left(takes.seconds(of), (at - start).total_seconds()) for start, of in running if start is not None]
    work = [takes.seconds(of) for of, count in before for _ in range(count)]
    slots = slots_of(session, job.backend)
    if not slots:
        return Wait(len(work) + 1, len(work), None, None)
    start = start_in(busy, work, slots) * _Arrivals(session, job.backend, at).longer(job.round, own / slots)
    return Wait(len(work) + 1, len(work), start, start + own)


def slots_of(session: Session, backend: str) -> int:
    """Graders of a backend, as its dispatcher said last; 1 before it said anything."""
    found = session.scalar(select(Queue.slots).where(Queue.backend == backend))
    return 1 if found is None else found


def left(takes: float, ran: float) -> float:
    """Seconds that a judging still takes which ran so long. Beyond its time: a tenth of it."""
    return max(takes - ran, takes / 10)


def start_in(busy: Sequence[float], work: Sequence[float], slots: int) -> float:
    """When a job starts that stands behind `work`, with `slots` graders of which some are busy so long: seconds."""
    free: List[float] = sorted(busy)[:slots]
    free += [0.0] * (slots - len(free))
    heapq.heapify(free)
    for seconds in work:
        heapq.heapreplace(free, free[0] + seconds)
    return free[0]


def schedule(session: Session, backend: str, at: Optional[datetime] = None) -> Optional[Dict[int, float]]:
    """In how many seconds each waiting job of a queue starts, by the job's id: what `expected` says of each, in three
    queries for all of them. None where no grader is up."""
    at = at or now()
    takes = _Takes(session)
    slots = slots_of(session, backend)
    if not slots:
        return None
    jobs = session.execute(
        select(Job.id, Job.state, Job.started_at, Job.round, Submission.class_id).join(Job.submission)
        .where(Job.backend == backend, Job.state.in_((QUEUED, RUNNING))).order_by(Job.round, Job.queued_at, Job.id)
    ).all()  # fmt: skip
    arrivals = _Arrivals(session, backend, at)
    free = [left(takes.seconds(job.class_id), (at - job.started_at).total_seconds()) for job in jobs
            if job.state == RUNNING and job.started_at is not None]  # fmt: skip
    free = sorted(free)[:slots]
    free += [0.0] * (slots - len(free))
    heapq.heapify(free)
    found: Dict[int, float] = {}
    for job in jobs:
        if job.state == QUEUED:
            own = takes.seconds(job.class_id)
            found[job.id] = free[0] * arrivals.longer(job.round, own / slots)
            heapq.heapreplace(free, free[0] + own)
    return found


class _Arrivals:
    """Who came in the last minute: for guessing who is still to come."""

    def __init__(self, session: Session, backend: str, at: datetime):
        self._serving = session.scalar(select(Queue.round).where(Queue.backend == backend)) or 0
        came = (Job.backend == backend, Job.queued_at > at - _LAST)
        self._came = [(round_, (at - when).total_seconds())
                      for round_, when in session.execute(select(Job.round, Job.queued_at).where(*came))]  # fmt: skip

    def longer(self, round_: int, takes: float) -> float:
        """How many times longer a job waits for those who are still to come, and stand before it.

        A job of the round that is being served is overtaken by nobody. One of a later round is, by others' submissions
        of the rounds before: they come as they came in the last minute, and take `takes` seconds each. Nobody knows how
        long that goes on, so it is no more than twice.
        """
        before = [ago for round_of, ago in self._came if round_of < round_]
        if round_ <= self._serving or not before:
            return 1.0
        busy = len(before) * takes / max(*before, _LEAST)
        return min(2.0, 1 / (1 - busy)) if busy < 1 else 2.0


class _Takes:
    """How long a judging of a class takes, looked up once a class."""

    def __init__(self, session: Session):
        self._session = session
        self._known: Dict[int, float] = {}

    def seconds(self, class_id: int) -> float:
        """From claim to judgement, the median of the last ones."""
        if class_id not in self._known:
            # From the newest judgement back until there are enough: + 0 keeps the database from gathering the class's
            # 15,000 submissions first, which takes 40 ms.
            rows = self._session.execute(
                select(Judgement.started_at, Judgement.finished_at).join(Judgement.submission)
                .where(Submission.class_id + 0 == class_id).order_by(Judgement.id.desc()).limit(_LATELY)
            ).all()  # fmt: skip
            took = [(end - start).total_seconds() for start, end in rows]
            self._known[class_id] = max(statistics.median(took), 0.01) if took else _UNKNOWN
        return self._known[class_id]


__all__ = ["Wait", "expected", "left", "schedule", "start_in"]
