"""The web application: the API under /api/v1, the page where it is there, health and metrics."""

import importlib
import importlib.util
import time

from fastapi import FastAPI
from fastapi.responses import JSONResponse
from starlette.datastructures import MutableHeaders

from .. import __version__
from .api import failures, health, routes
from .settings import Settings
from .store.database import Store, url_of
from .store.refused import Refused

# Nothing is loaded but what this service serves itself, no script or style within a page, and no frame around it.
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


def create_app(settings: Settings) -> FastAPI:
    """Make the application.

    Parameters
    ----------
    settings
        What the board is started with.

    Returns
    -------
    FastAPI
        `app.state.store` is the opened database, `app.state.settings` the settings, `app.state.refused` counts what is
        refused: routes find them there.

    Raises
    ------
    DataError
        When the database cannot be opened.
    """
    # FastAPI's own pages of documentation load scripts from elsewhere: left out. The schema itself is served.
    app = FastAPI(title="fashion-infer board", version=__version__, docs_url=None, redoc_url=None,
                  openapi_url="/api/v1/openapi.json")  # fmt: skip
    app.state.settings = settings
    app.state.store = Store(url_of(settings.data, settings.database))
    if settings.proxies:
        app.add_middleware(_OnlyTls)
    app.state.began = time.monotonic()
    app.state.refused = Refused(app.state.store)
    app.add_middleware(_Headers)
    failures.install(app)
    app.include_router(health.router)
    app.include_router(routes.router, prefix="/api/v1")
    if importlib.util.find_spec(f"{__package__}.page") is not None:
        page = importlib.import_module(f"{__package__}.page.routes")
        app.include_router(page.router)
    return app


class _Headers:
    """Puts `HEADERS` on every answer that does not say otherwise itself."""

    def __init__(self, app):
        self._app = app

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

        await self._app(scope, receive, sending)


class _OnlyTls:
    """Behind a proxy that has TLS: refuses what did not come through it, but for a supervisor's look at /healthz."""

    def __init__(self, app):
        self._app = app

    async def __call__(self, scope, receive, send):
        if scope["type"] == "http" and scope.get("scheme") != "https" and scope["path"] != "/healthz":
            said = "this board is reached by https, through its proxy, which says so with X-Forwarded-Proto: https"
            await JSONResponse({"detail": said}, 403)(scope, receive, send)
            return
        await self._app(scope, receive, send)
