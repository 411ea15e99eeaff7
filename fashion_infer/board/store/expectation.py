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
    start_in: float  # seconds, 0 while it runs
    end_in: float  # seconds


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
    slots = max(1, slots_of(session, job.backend))
    start = start_in(busy, work, slots) * _overtaken(session, job, own / slots, at)
    return Wait(len(work) + 1, len(work), start, start + own)


def _overtaken(session: Session, job: Job, takes: float, at: datetime) -> float:
    """How many times longer a job waits for those who are still to come, and stand before it.

    A job of the round that is being served is overtaken by nobody. One of a later round is, by others' submissions of
    the rounds before: they come as they came in the last minute, and take `takes` each. Nobody knows how long that goes
    on, so it is no more than twice.
    """
    serving = session.scalar(select(Queue.round).where(Queue.backend == job.backend)) or 0
    if job.round <= serving:
        return 1.0
    before = (Job.backend == job.backend, Job.queued_at > at - _LAST, Job.round < job.round)
    came, first = session.execute(select(func.count(), func.min(Job.queued_at)).where(*before)).one()
    if not came:
        return 1.0
    busy = came * takes / max((at - first).total_seconds(), _LEAST)
    return min(2.0, 1 / (1 - busy)) if busy < 1 else 2.0


def slots_of(session: Session, backend: str) -> int:
    """Graders of a backend, as its dispatcher said last; 1 before it said anything."""
    return session.scalar(select(Queue.slots).where(Queue.backend == backend)) or 1


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


class _Takes:
    """How long a judging of a class takes, looked up once a class."""

    def __init__(self, session: Session):
        self._session = session
        self._known: Dict[int, float] = {}

    def seconds(self, class_id: int) -> float:
        """From claim to judgement, the median of the last ones."""
        if class_id not in self._known:
            rows = self._session.execute(
                select(Judgement.started_at, Judgement.finished_at).join(Judgement.submission)
                .where(Submission.class_id == class_id).order_by(Judgement.id.desc()).limit(_LATELY)
            ).all()  # fmt: skip
            took = [(end - start).total_seconds() for start, end in rows]
            self._known[class_id] = max(statistics.median(took), 0.01) if took else _UNKNOWN
        return self._known[class_id]


__all__ = ["Wait", "expected", "left", "start_in"]
