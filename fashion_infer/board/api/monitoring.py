"""The endpoints /healthz and /metrics. Metrics come from the database, so all services of a board agree."""

import time

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Gauge, generate_latest
from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from ..access import Reading, staff
from ..store.models import QUEUED, Class, JobRow, Judgement, SubmissionRow, now
from ..store.queries import waiting
from ..store.queue import states

router = APIRouter()
_SILENT = 60  # seconds without a dispatcher's report after which the dispatcher counts as dead


@router.get("/healthz", responses={503: {"description": "The board does not work properly."}})
def healthz(request: Request, session: Reading) -> JSONResponse:
    """Return 200 if the database answers, dispatchers report, and queues with waiting jobs have graders; else 503."""
    session.execute(text("SELECT 1"))
    queues = states(session)
    seen = {one.backend: one.seen_at for one in queues if one.seen_at is not None}
    silent = [backend for backend, at in seen.items() if (now() - at).total_seconds() > _SILENT]
    if not seen and time.monotonic() - request.app.state.began > _SILENT:
        silent = ["all"]  # no dispatcher has ever reported
    idle = [one.backend for one in queues if not one.slots and waiting(session, one.backend)]
    what = {
        "status": "ill" if silent or idle else "ok",
        "database": "ok",
        "silent_dispatchers": silent,
        "waiting_without_graders": idle,
    }
    return JSONResponse(what, 503 if silent or idle else 200)


@router.get("/metrics", response_class=Response, dependencies=[Depends(staff)], responses={401: {}, 403: {}})
def metrics(session: Reading) -> Response:
    """Return metrics for Prometheus. The request must have the token of an assistant or an instructor."""
    return Response(_metrics(session), media_type=CONTENT_TYPE_LATEST)


def _metrics(session: Session) -> bytes:
    registry = CollectorRegistry()

    def gauge(name: str, text: str, labels, rows) -> None:
        made = Gauge(f"board_{name}", text, labels, registry=registry)
        for *which, value in rows:
            (made.labels(*which) if labels else made).set(value)

    of_class, queue = ["of_class"], ["backend"]
    submissions = select(Class.name, SubmissionRow.status, func.count()).join(SubmissionRow.of_class)
    jobs = select(JobRow.backend, JobRow.state, func.count()).group_by(JobRow.backend, JobRow.state)
    oldest = select(JobRow.backend, func.min(JobRow.queued_at)).where(JobRow.state == QUEUED).group_by(JobRow.backend)
    seconds = select(Class.name, func.sum(Judgement.seconds)).join(Judgement.submission).join(SubmissionRow.of_class)
    deaths = session.scalar(select(func.coalesce(func.sum(JobRow.attempts), 0)))
    gauge(
        "submissions",
        "Number of submissions by class and status.",
        [*of_class, "status"],
        session.execute(submissions.group_by(Class.name, SubmissionRow.status)),
    )
    gauge("jobs", "Number of jobs by backend and state.", [*queue, "state"], session.execute(jobs))
    gauge(
        "oldest_waiting_seconds",
        "Seconds for which the oldest waiting job has waited.",
        queue,
        [(backend, (now() - since).total_seconds()) for backend, since in session.execute(oldest)],
    )
    gauge(
        "device_seconds",
        "Device time of all judgings of a class, in seconds.",
        of_class,
        session.execute(seconds.group_by(Class.name)),
    )
    gauge("grader_deaths", "Number of times that a grader died or failed during a job.", [], [(deaths or 0,)])
    gauge(
        "graders", "Number of graders, by backend.", queue, [(state.backend, state.slots) for state in states(session)]
    )
    return generate_latest(registry)
