"""What a client hears when something is wrong: JSON with one line, and nothing of the inside."""

import logging

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from sqlalchemy.exc import DBAPIError

from ...errors import FashionInferError, UsageError
from ..store.accepting import NotTaken

_log = logging.getLogger("fashion_infer.board")


def install(app: FastAPI) -> None:
    """Answer exceptions of the store."""

    @app.exception_handler(NotTaken)
    async def not_taken(request: Request, error: NotTaken) -> JSONResponse:
        headers = {"Retry-After": str(error.retry_after)} if error.retry_after else {}
        return JSONResponse({"detail": str(error)}, error.status, headers)

    @app.exception_handler(FashionInferError)
    async def refused(request: Request, error: FashionInferError) -> JSONResponse:
        return JSONResponse({"detail": str(error)}, 422 if isinstance(error, UsageError) else 500)

    @app.exception_handler(DBAPIError)
    async def database(request: Request, error: DBAPIError) -> JSONResponse:
        # The connection went away, or a writer waited too long: what was asked can be asked again.
        _log.error("the database failed", exc_info=error)
        return JSONResponse({"detail": "the database does not answer: try again"}, 503, {"Retry-After": "2"})
