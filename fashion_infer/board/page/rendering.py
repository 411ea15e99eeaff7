"""Makes the pages' answers (rendered templates, redirects and downloads), and reads the static files."""

import hashlib
from functools import lru_cache
from importlib import resources
from typing import Dict, Tuple

import jinja2
from fastapi import Request
from fastapi.responses import RedirectResponse, Response

from ..store.types import now
from . import words

# Headers for files that people submitted. A browser that shows such a file must neither run it nor load anything.
INERT = {"Content-Security-Policy": "default-src 'none'; sandbox; frame-ancestors 'none'"}
_STATIC = {"page.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}


@lru_cache(maxsize=None)
def static_files() -> Dict[str, Tuple[bytes, str]]:
    """Return the bytes and media type of each static file, by name. Requests can read no other files."""
    folder = resources.files(__package__) / "static"
    return {name: ((folder / name).read_bytes(), kind) for name, kind in _STATIC.items()}


@lru_cache(maxsize=None)
def version() -> str:
    """Return a digest of the static files, which is part of their URLs, so that browsers may cache them for long."""
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
    """Return a page: a template filled with `values` and with `visit` (None if nobody is signed in)."""
    root = request.scope.get("root_path", "").rstrip("/")
    here = request.scope["path"][len(root) :] if root and request.scope["path"].startswith(root) else request.url.path
    common = {"root": root, "version": version(), "here": here, "now": now(),
              "address": str(request.base_url).rstrip("/"), "visit": getattr(request.state, "visit", None)}  # fmt: skip
    return Response(engine().get_template(template).render({**common, **values}), status, media_type="text/html")


def problem(request: Request, status: int, title: str, text: str) -> Response:
    return html(request, "error.html", status, title=title, text=text)


def see(request: Request, path: str) -> Response:
    return RedirectResponse(request.scope.get("root_path", "").rstrip("/") + path, 303)


def download(content: bytes, kind: str, name: str) -> Response:
    """Return an answer that a browser saves to a file. `name` must have no special characters."""
    disposition = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(content, 200, {**INERT, **disposition, "Content-Type": kind})
