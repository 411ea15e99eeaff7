"""The API's answers to errors: JSON with one line that says what is wrong, without details of the service."""

import logging

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from sqlalchemy.exc import DBAPIError
from starlette.requests import ClientDisconnect

from ...errors import FashionInferError, UsageError
from ..store.admission import NotTaken
from ..store.queries import NotFound

_log = logging.getLogger("fashion_infer.board")


def install(app: FastAPI) -> None:
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
