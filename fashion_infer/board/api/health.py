"""/healthz for supervisors and balancers, /metrics for Prometheus."""

import time

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST
from sqlalchemy import text

from ..access import Reading, staff
from ..store.queries import waiting
from ..store.queue import states
from ..store.types import now
from . import measures

router = APIRouter()
_SILENT = 60  # seconds after which a dispatcher counts as dead


@router.get("/healthz", responses={503: {"description": "Not well."}})
def healthz(request: Request, session: Reading) -> JSONResponse:
    """Return 200 when the database answers, dispatchers are alive, and every waiting job has a grader; else 503."""
    session.execute(text("SELECT 1"))
    queues = states(session)
    seen = {one.backend: one.seen_at for one in queues if one.seen_at is not None}
    silent = [backend for backend, at in seen.items() if (now() - at).total_seconds() > _SILENT]
    if not seen and time.monotonic() - request.app.state.began > _SILENT:
        silent = ["all"]  # none has ever said anything
    idle = [one.backend for one in queues if not one.slots and waiting(session, one.backend)]
    what = {"status": "ill" if silent or idle else "ok", "database": "ok", "silent_dispatchers": silent,
            "waiting_without_graders": idle}  # fmt: skip
    return JSONResponse(what, 503 if silent or idle else 200)


@router.get("/metrics", response_class=Response, dependencies=[Depends(staff)], responses={401: {}, 403: {}})
def metrics(session: Reading) -> Response:
    """Return metrics for Prometheus, which sends the token of an assistant or an instructor."""
    return Response(measures.text(session), media_type=CONTENT_TYPE_LATEST)
