"""Makes the answers of the pages: filled templates, redirects, downloads and static files."""

import hashlib
from functools import lru_cache
from importlib import resources
from typing import Dict, Tuple

import jinja2
from fastapi import Request
from fastapi.responses import RedirectResponse, Response

from ..store.types import now
from . import words

# Headers for files that people submitted: a browser must neither run them nor guess their type.
INERT = {"Content-Security-Policy": "default-src 'none'; sandbox; frame-ancestors 'none'"}
_STATIC = {"page.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}


@lru_cache(maxsize=None)
def static_files() -> Dict[str, Tuple[bytes, str]]:
    """Return the bytes and type of every static file, by name. No other file is ever read for a request."""
    folder = resources.files(__package__) / "static"
    return {name: ((folder / name).read_bytes(), kind) for name, kind in _STATIC.items()}


@lru_cache(maxsize=None)
def version() -> str:
    """Return a digest of the static files. It is part of their URL, so that a browser may cache them."""
    return hashlib.sha256(b"".join(content for content, _ in static_files().values())).hexdigest()[:12]


@lru_cache(maxsize=None)
def engine() -> jinja2.Environment:
    """Return the template environment, which escapes all values."""
    made = jinja2.Environment(
        loader=jinja2.PackageLoader(__package__, "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        undefined=jinja2.StrictUndefined,
    )
    made.filters.update({name: getattr(words, name) for name in words.FILTERS})
    return made


def html(request: Request, template: str, status: int = 200, **values) -> Response:
    """Render a template. `visit` is the request of a signed-in person, None for others."""
    root = request.scope.get("root_path", "").rstrip("/")
    here = request.scope["path"][len(root) :] if root and request.scope["path"].startswith(root) else request.url.path
    common = {"root": root, "version": version(), "here": here, "now": now(),
              "address": str(request.base_url).rstrip("/"), "visit": getattr(request.state, "visit", None)}  # fmt: skip
    return Response(engine().get_template(template).render({**common, **values}), status, media_type="text/html")


def problem(request: Request, status: int, title: str, text: str) -> Response:
    """Answer with a page that says what is wrong."""
    return html(request, "error.html", status, title=title, text=text)


def see(request: Request, path: str) -> Response:
    """Redirect to another page of the board."""
    return RedirectResponse(request.scope.get("root_path", "").rstrip("/") + path, 303)


def download(content: bytes, kind: str, name: str) -> Response:
    """Answer with bytes that the browser saves under a safe name and never shows."""
    disposition = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(content, 200, {**INERT, **disposition, "Content-Type": kind})
