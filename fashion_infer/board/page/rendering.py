"""Makes the pages' answers (rendered templates, redirects and downloads), formats values, and reads static files."""

import hashlib
import re
import textwrap
from datetime import datetime, timezone, tzinfo
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Dict, List, Optional, Tuple

import jinja2
from fastapi import Request
from fastapi.responses import RedirectResponse, Response

from ...errors import UsageError
from ...system.installation import resource_dir
from ...system.text import shown
from ..store import class_settings
from ..store.models import now

# Headers for files that people submitted. A browser that shows such a file must neither run it nor load anything.
INERT = {"Content-Security-Policy": "default-src 'none'; sandbox; frame-ancestors 'none'"}
NONE = "\u2013"  # text of an empty table cell
_MOST_LOG = 200_000  # largest number of characters of a log on a page
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
def why() -> List[Tuple[str, str, str]]:
    """Return the findings' sections of docs/why.md as (HTML element, id, text with code in backticks)."""
    text = (Path(resource_dir("docs")) / "why.md").read_text(encoding="utf-8")
    text = re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", text[text.index("## Wrong") : text.index("## Without a run")])
    found: List[Tuple[str, str, str]] = []
    for block in text.rstrip().split("\n\n"):
        marks, _, title = block.partition(" ")
        if marks in ("##", "###"):
            name = title.split("`")[1] if "`" in title else ""
            known = any(id == name for _, id, _ in found)  # a finding on a GPU and on a CPU has two sections
            found.append((f"h{len(marks)}", "" if known else name, title))
        else:
            found.append(("pre" if block.startswith("    ") else "p", "", textwrap.dedent(block)))
    return found


@lru_cache(maxsize=None)
def engine() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.PackageLoader(__package__, "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        undefined=jinja2.StrictUndefined,
    )
    made.filters.update({each.__name__: each for each in FILTERS})
    return made


def html(request: Request, template: str, status: int = 200, **values) -> Response:
    """Return a page: a template filled with `values` and with `visit` (None if nobody is signed in)."""
    root = request.scope.get("root_path", "").rstrip("/")
    here = request.scope["path"][len(root) :] if root and request.scope["path"].startswith(root) else request.url.path
    common = {"root": root, "zone": zone_of(request), "version": version(), "here": here, "now": now(),
              "address": str(request.base_url).rstrip("/"), "visit": getattr(request.state, "visit", None)}  # fmt: skip
    return Response(engine().get_template(template).render({**common, **values}), status, media_type="text/html")


@lru_cache(maxsize=1000)
def _zone(name: str) -> tzinfo:
    try:
        return class_settings.time_zone(name)
    except UsageError:
        return timezone.utc


def zone_of(request: Request) -> tzinfo:
    """Return the reader's time zone, which page.js writes into a cookie; UTC without the script, or if unknown here."""
    return _zone(request.cookies.get("zone", "UTC")[:50])


def problem(request: Request, status: int, title: str, text: str) -> Response:
    return html(request, "error.html", status, title=title, text=text)


def see(request: Request, path: str) -> Response:
    return RedirectResponse(request.scope.get("root_path", "").rstrip("/") + path, 303)


def download(content: bytes, kind: str, name: str) -> Response:
    disposition = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(content, 200, {**INERT, **disposition, "Content-Type": kind})


def milliseconds(ms: Optional[float]) -> str:
    """Format a time in ms, with enough digits to distinguish it from others in a ranking."""
    if ms is None:
        return NONE
    return f"{ms:,.1f}" if ms >= 100 else f"{ms:.2f}" if ms >= 10 else f"{ms:.3f}"


def seconds(value: Optional[float]) -> str:
    """Format a duration in s: in steps of 10 s up to 90 s (at least 10 s), then in whole minutes, hours or days."""
    if value is None:
        return "unknown"
    if value < 10:
        return "10 s"
    if value < 90:
        return f"{round(value / 10) * 10} s"
    for most, unit, name in ((90, 60, "min"), (36, 3600, "h")):
        if value < most * unit:
            return f"{round(value / unit)} {name}"
    return f"{round(value / 86400)} days"


def until(when: datetime, now: datetime) -> str:
    """Format the difference between a time and now, such as "in 3 days" or "5 min ago"."""
    gap = (when - now).total_seconds()
    return f"in {seconds(gap)}" if gap >= 0 else f"{seconds(-gap)} ago"


@jinja2.pass_context
def moment(context, when: datetime) -> str:
    return f"{when.astimezone(context['zone']):%-d %b %Y, %H:%M %Z}"


def position(job) -> str:
    if job.place == 0:
        return "running now"
    ending = "th" if 10 <= job.place % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(job.place % 10, "th")
    start = "no grader running" if job.start_in is None else f"starts in about {seconds(job.start_in)}"
    return f"{job.place}{ending} in the queue, {start}"


def line(text: object) -> str:
    """Return a user's text on one line, with invisible characters and those that change the direction escaped."""
    return shown(str(text))


def log(text: str) -> str:
    r"""Return a log for a page: shortened if it is too long, with control characters except \n and \t escaped."""
    if len(text) > _MOST_LOG:
        text = text[:_MOST_LOG] + "\n… truncated: the file has the whole log\n"
    return "\n".join("\t".join(map(shown, one.split("\t"))) for one in text.replace("\r\n", "\n").split("\n"))


def size(count: int) -> str:
    return f"{count:,} B" if count < 10240 else f"{count / 1024:,.0f} KiB"


# Filters of the templates, which format values for a page.
FILTERS = (line, log, milliseconds, moment, position, seconds, size, until)
