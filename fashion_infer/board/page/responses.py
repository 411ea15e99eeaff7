"""How a page answers: its template filled in. The headers that all answers have are the service's."""

import hashlib
from functools import lru_cache
from importlib import resources
from typing import Dict, Tuple

import jinja2
from fastapi import Request
from fastapi.responses import RedirectResponse, Response

from ..store.types import now
from .view import words

# Of a file that somebody handed in, or a log: a browser must neither run it nor guess what it is.
INERT = {"Content-Security-Policy": "default-src 'none'; sandbox; frame-ancestors 'none'"}
_STATIC = {"page.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}


@lru_cache(maxsize=None)
def static_files() -> Dict[str, Tuple[bytes, str]]:
    """Bytes and type of every static file, by name. They are few, and nothing else is ever read from a request."""
    folder = resources.files(__package__) / "static"
    return {name: ((folder / name).read_bytes(), kind) for name, kind in _STATIC.items()}


@lru_cache(maxsize=None)
def version() -> str:
    """Of the static files: part of their address, so that a browser may keep them for ever."""
    return hashlib.sha256(b"".join(content for content, _ in static_files().values())).hexdigest()[:12]


@lru_cache(maxsize=None)
def engine() -> jinja2.Environment:
    """The templates. All that is filled in is escaped."""
    made = jinja2.Environment(
        loader=jinja2.PackageLoader(__package__, "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        undefined=jinja2.StrictUndefined,
    )
    for name in ("line", "log", "machine", "milliseconds", "moment", "until"):
        made.filters[name] = getattr(words, name)
    return made


def html(request: Request, template: str, status: int = 200, **values) -> Response:
    """A template's answer. `viewer` (None: nobody is signed in) and `guard` come with the values."""
    root = request.scope.get("root_path", "").rstrip("/")
    here = request.scope["path"][len(root) :] if root and request.scope["path"].startswith(root) else request.url.path
    common = {"root": root, "version": version(), "here": here, "viewer": None, "now": now()}
    text = engine().get_template(template).render({**common, **values})
    return Response(text, status, media_type="text/html")


def problem(request: Request, status: int, title: str, text: str, **values) -> Response:
    """A page that says what is wrong, and nothing of what is there."""
    return html(request, "error.html", status, title=title, text=text, **values)


def see(request: Request, path: str) -> Response:
    """On to another page of the board, after a form was done."""
    return RedirectResponse(request.scope.get("root_path", "").rstrip("/") + path, 303)


def plain(content: bytes, kind: str, name: str) -> Response:
    """Bytes of somebody's, to be saved under a name that was made safe."""
    disposition = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(content, 200, {**INERT, **disposition, "Content-Type": kind})
