"""Makes the final ranking: the leaders' submissions run five more times with new seeds; their medians rank them."""

from typing import List, Optional

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from ...errors import UsageError
from .audit import record
from .expectation import slots_of
from .models import DONE, OWN, PENDING, QUEUED, RUNNING, TEST, Class, JobRow, Judgement, SubmissionRow, now
from .queue import enqueue
from .ranking import RUNS, bests, judged


def check(session: Session, of_class: Class) -> None:
    """Raise UsageError before the deadline of a class, or while submissions of the class, except tests, wait or run."""
    if of_class.deadline is not None and now() < of_class.deadline:
        raise UsageError(f"the deadline of {of_class.name} is still to come: finalise later")
    waits = session.scalar(
        select(func.count())
        .select_from(SubmissionRow)
        .where(SubmissionRow.class_id == of_class.id, SubmissionRow.status.in_(PENDING), ~SubmissionRow.test)
    )
    if waits:
        raise UsageError(f"{waits} submissions of {of_class.name} wait or run: finalise after they are judged")


def queue_leaders(session: Session, of_class: Class, leaders: int, actor: str = "command line") -> List[str]:
    """Queue the leaders' final runs that are not yet queued or done; return their submissions' identifiers."""
    fresh = []
    for best in sorted(bests(judged(session, of_class)).values())[:leaders]:
        there = set(session.scalars(select(JobRow.purpose).where(JobRow.submission_id == best.submission_id)))
        lacking = [f"final-{number}" for number in range(1, RUNS + 1) if f"final-{number}" not in there]
        submission = session.get_one(SubmissionRow, best.submission_id)
        for purpose in lacking:
            enqueue(session, submission, of_class.backend, purpose, now())
        if lacking:
            fresh.append(best.submission_id)
    if fresh:
        of_class.finalised_at = None
        record(session, actor, "finalise", ", ".join(fresh), of_class.id)
    return fresh


def runs_left(session: Session, of_class: Class) -> int:
    query = select(func.count()).select_from(JobRow).join(JobRow.submission)
    final = (SubmissionRow.class_id == of_class.id, JobRow.purpose.not_in(OWN), JobRow.state.in_((QUEUED, RUNNING)))
    return session.scalar(query.where(*final)) or 0


def seconds_left(session: Session, of_class: Class) -> Optional[float]:
    """Return the expected seconds of the runs that are left, from the class's mean so far; None without graders."""
    ran = (SubmissionRow.class_id == of_class.id, Judgement.purpose != TEST)
    mean = session.scalar(select(func.avg(Judgement.seconds)).join(Judgement.submission).where(*ran))
    slots = slots_of(session, of_class.backend)
    return runs_left(session, of_class) * (mean or 0.0) / slots if slots else None


def close(session: Session, of_class: Class) -> bool:
    """Declare the ranking final if there were final runs and all have ended; return whether it is final."""
    done = session.scalar(
        select(func.count())
        .select_from(JobRow)
        .join(JobRow.submission)
        .where(SubmissionRow.class_id == of_class.id, JobRow.purpose.not_in(OWN), JobRow.state == DONE)
    )
    if not done or runs_left(session, of_class):
        return False
    of_class.finalised_at = now()
    return True
