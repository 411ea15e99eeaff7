"""/healthz for supervisors and balancers, /metrics for Prometheus."""

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST
from sqlalchemy import text

from ..store.types import now
from . import measures
from .who import Reading, staff

router = APIRouter()
_SILENT = 60  # seconds after which a dispatcher counts as dead


@router.get("/healthz", responses={503: {"description": "Not well."}})
def healthz(request: Request, session: Reading) -> JSONResponse:
    """200 when the database answers and dispatchers live, else 503 (503 as well when the database is away)."""
    session.execute(text("SELECT 1"))
    silent = [one.backend for one in measures.queues(session)
              if one.seen_at is not None and (now() - one.seen_at).total_seconds() > _SILENT]  # fmt: skip
    what = {"status": "ill" if silent else "ok", "database": "ok", "silent_dispatchers": silent}
    return JSONResponse(what, 503 if silent else 200)


@router.get("/metrics", response_class=Response, dependencies=[Depends(staff)], responses={401: {}, 403: {}})
def metrics(session: Reading) -> Response:
    """For Prometheus, which shows the token of an assistant or an instructor."""
    return Response(measures.text(session), media_type=CONTENT_TYPE_LATEST)
