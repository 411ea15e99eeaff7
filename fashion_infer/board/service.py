"""The web application: the API under /api/v1, the pages and /healthz."""

import logging
import time

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from sqlalchemy import select, text
from sqlalchemy.exc import DBAPIError
from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect

from ..errors import FashionInferError, UsageError
from ..version import __version__
from . import BoardSettings
from .access import Reading
from .api import routes
from .page import routes as pages
from .page.standings import Standings
from .store.admission import NotTaken
from .store.audit import RefusedSignIns
from .store.database import Store, url_of
from .store.models import QueueRow, now
from .store.queries import NotFound, waiting

_SILENT = 60  # seconds without a dispatcher's report after which the dispatcher counts as dead
# Headers of the answers. They restrict a page to files of this service, and forbid inline scripts and frames.
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


def create_app(settings: BoardSettings) -> FastAPI:
    """Create the web application, whose `state` all requests share; DataError if the database cannot be opened."""
    # FastAPI's pages of documentation are off, because they load scripts from other sites. The schema is available.
    app = FastAPI(
        title="fashion-infer board",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/v1/openapi.json",
    )
    app.state.settings = settings
    app.state.store = Store(url_of(settings.data, settings.database))
    app.state.began = time.monotonic()
    app.state.refused = RefusedSignIns(app.state.store)
    app.state.standings = Standings()
    app.add_middleware(_Headers, only_tls=bool(settings.proxies))
    handle_failures(app)
    app.get("/healthz", responses={503: {"description": "The board does not work properly."}})(healthz)
    app.include_router(routes.router, prefix="/api/v1")
    app.include_router(pages.router)
    return app


def healthz(request: Request, session: Reading) -> JSONResponse:
    """Return 200 if the database answers, dispatchers report, and queues with waiting jobs have graders; else 503."""
    session.execute(text("SELECT 1"))
    queues = session.scalars(select(QueueRow)).all()
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


class _Headers:
    """Adds `HEADERS`, and headers about caching and TLS, to every answer. An answer's own headers are kept. With
    `only_tls`, requests that did not come through a trusted proxy by https are refused, except those of /healthz."""

    def __init__(self, app, only_tls: bool):
        self._app, self._only_tls = app, only_tls

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def sending(message):
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("Cache-Control", "no-store")
                if scope.get("scheme") == "https":
                    headers.setdefault("Strict-Transport-Security", "max-age=31536000")
            await send(message)

        app = self._app
        if self._only_tls and scope.get("scheme") != "https" and scope["path"] != "/healthz":
            said = "use https, through the board's proxy, which must send X-Forwarded-Proto: https"
            app = JSONResponse({"detail": said}, 403)
        await app(scope, receive, sending)


_log = logging.getLogger("fashion_infer.board")


def handle_failures(app: FastAPI) -> None:
    """Install handlers for this package's exceptions, failures of the database, and clients that disconnect early."""

    @app.exception_handler(FashionInferError)
    async def refused(request: Request, error: FashionInferError) -> JSONResponse:
        status, headers = (422 if isinstance(error, UsageError) else 500), {}
        if isinstance(error, (NotTaken, NotFound)):
            status = error.status
        if isinstance(error, NotTaken) and error.retry_after:
            headers = {"Retry-After": str(error.retry_after)}
        return JSONResponse({"detail": str(error)}, status, headers)

    @app.exception_handler(DBAPIError)
    async def database(request: Request, error: DBAPIError) -> JSONResponse:
        # Usually the connection was lost, or a writer waited too long for another one, so that a retry may succeed.
        _log.error("the database failed", exc_info=error)
        return JSONResponse({"detail": "the database does not answer: try again"}, 503, {"Retry-After": "2"})

    @app.exception_handler(ClientDisconnect)
    async def gone(request: Request, error: ClientDisconnect) -> Response:
        return Response(status_code=400)  # nobody receives this answer, and nothing is logged
