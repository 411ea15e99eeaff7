"""Metrics. They are counted from the database: right after a restart, and the same from every service."""

from prometheus_client import CollectorRegistry, Gauge, generate_latest
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from ..store.models import Class, JobRow, Judgement, SubmissionRow
from ..store.queue import states
from ..store.types import QUEUED, now


def text(session: Session) -> bytes:
    """All metrics in Prometheus' format."""
    registry = CollectorRegistry()
    submissions = Gauge("board_submissions", "Submissions by class and status.", ["of_class", "status"],
                        registry=registry)  # fmt: skip
    rows = session.execute(
        select(Class.name, SubmissionRow.status, func.count()).join(SubmissionRow, SubmissionRow.class_id == Class.id)
        .group_by(Class.name, SubmissionRow.status)
    )  # fmt: skip
    for name, status, count in rows:
        submissions.labels(name, status).set(count)
    jobs = Gauge("board_jobs", "Jobs by backend and state.", ["backend", "state"], registry=registry)
    for backend, state, count in session.execute(
        select(JobRow.backend, JobRow.state, func.count()).group_by(JobRow.backend, JobRow.state)
    ):
        jobs.labels(backend, state).set(count)
    oldest = Gauge(
        "board_oldest_waiting_seconds", "How long the oldest job has waited.", ["backend"], registry=registry
    )
    for backend, since in session.execute(
        select(JobRow.backend, func.min(JobRow.queued_at)).where(JobRow.state == QUEUED).group_by(JobRow.backend)
    ):
        oldest.labels(backend).set((now() - since).total_seconds())
    seconds = Gauge("board_device_seconds", "Seconds that judgings held a device.", ["of_class"], registry=registry)
    for name, total in session.execute(
        select(Class.name, func.sum(Judgement.seconds)).join(SubmissionRow, SubmissionRow.class_id == Class.id)
        .join(Judgement, Judgement.submission_id == SubmissionRow.id).group_by(Class.name)
    ):  # fmt: skip
        seconds.labels(name).set(total or 0)
    deaths = Gauge("board_grader_deaths", "Times that a grader died under a job.", registry=registry)
    deaths.set(session.scalar(select(func.coalesce(func.sum(JobRow.attempts), 0))) or 0)
    slots = Gauge("board_graders", "Judgings that can run side by side.", ["backend"], registry=registry)
    for queue in states(session):
        slots.labels(queue.backend).set(queue.slots)
    return generate_latest(registry)
