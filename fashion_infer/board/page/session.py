"""Who looks: a browser's session, its cookie, and the guard of its forms."""

import secrets
from typing import Annotated, Any, Callable, Dict, NamedTuple, Optional, Tuple
from urllib.parse import parse_qs

from fastapi import Depends, HTTPException, Request
from fastapi.responses import Response
from markupsafe import Markup
from sqlalchemy.orm import Session

from ...errors import UsageError
from ..store import sessions
from ..store.audit import count
from ..store.database import Store
from ..store.models import Class, Person, WebSession
from ..store.people import hashed, sees_all
from ..store.types import INSTRUCTOR, ROLES, STUDENT
from . import responses

_MOST_FORM = 1 << 16  # bytes
_MOST_FIELDS = 20
ALL, STAFF, INSTRUCTORS = ROLES, tuple(role for role in ROLES if role != STUDENT), (INSTRUCTOR,)


class Place(NamedTuple):
    """An entry of the bar."""

    path: str
    title: str


class Viewer(NamedTuple):
    """Who looks, for templates."""

    name: str
    role: str
    staff: bool
    class_name: str
    places: Tuple[Place, ...]


class Asked(NamedTuple):
    """A request of somebody who is signed in. `session` is the database's: for queries, of a form a transaction."""

    request: Request
    session: Session
    web: WebSession

    @property
    def person(self) -> Person:
        """Who asks."""
        return self.web.person

    @property
    def of_class(self) -> Class:
        """The person's class: pages know of no other."""
        return self.web.person.of_class

    @property
    def address(self) -> str:
        """Where the request came from, for the audit log."""
        return address(self.request)

    def html(self, template: str, status: int = 200, **values) -> Response:
        """A template's answer, with who looks and the guard of forms."""
        return responses.html(self.request, template, status, **_about(self.web), **values)


def store(request: Request) -> Store:
    """The board's database."""
    return request.app.state.store


def address(request: Request) -> str:
    """Where a request came from."""
    return request.client.host if request.client else ""


def reader(roles: Tuple[str, ...], work: Callable[..., Response]) -> Callable[[Request], Response]:
    """A page: `work(asked)` for whoever is signed in with one of the roles; others are sent to sign in, or told."""

    def answer(request: Request) -> Response:
        with store(request).read() as session:
            web = _signed_in(request, session)
            if web is None:
                return responses.see(request, "/login")
            asked = Asked(request, session, web)
            return work(asked) if web.person.role in roles else forbidden(asked)

    return answer


def forbidden(asked: Asked, text: str = "It is for the staff of the class.") -> Response:
    """The page for those who may not."""
    return asked.html("error.html", 403, title="Not for you to see", text=text)


def missing(asked: Asked) -> Response:
    """One page for what is not there and for what is somebody else's: nobody learns which of the two it is."""
    return asked.html("error.html", 404, title="Not found", text="There is no such page, or it is not yours to see.")


async def form(request: Request) -> Dict[str, str]:
    """The fields of a form, no more of them than any form here has; HTTPException 413, 415 or 422 for others.

    A field that comes twice has its first value.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/x-www-form-urlencoded":
        raise HTTPException(415, "a form of this board is application/x-www-form-urlencoded")
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _MOST_FORM:
            raise HTTPException(413, f"a form has no more than {_MOST_FORM} bytes")
    try:
        fields = parse_qs(body.decode("ascii"), keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="strict")
    except ValueError:
        raise HTTPException(422, "this form cannot be read") from None
    return {name: values[0] for name, values in fields.items()}


Fields = Annotated[Dict[str, str], Depends(form)]


def doer(roles: Tuple[str, ...], work: Callable[..., Response]) -> Callable[..., Response]:
    """A form: `work(asked, fields)` in one transaction, for a form of this session's and one of the roles.

    What is wrong with the fields is a UsageError: then nothing is written, and a page says what it is.
    """

    def answer(request: Request, fields: Fields) -> Response:
        with store(request).read() as session:  # before a writer's lock is taken
            web = _signed_in(request, session)
            if web is None:
                return responses.see(request, "/login")
            asked = Asked(request, session, web)
            if not same_site(request) or not sessions.csrf_ok(web, fields.get("csrf", "")):
                return forbidden(asked, "This form is of no page of yours: go back, load that page again, and try.")
        try:
            with store(request).write() as session:
                web = _signed_in(request, session)
                if web is None:
                    return responses.see(request, "/login")
                asked = Asked(request, session, web)
                if web.person.role not in roles:
                    path = request.scope["route"].path  # of which there are few, whatever somebody puts into it
                    count(session, web.person.name, "refused", 1, web.person.class_id, asked.address, path)
                    return forbidden(asked)
                return work(asked, fields)
        except UsageError as error:
            with store(request).read() as session:
                again = _signed_in(request, session)
                if again is None:
                    return responses.see(request, "/login")
                return Asked(request, session, again).html("error.html", 422, title="Not done", text=str(error))

    return answer


def same_site(request: Request) -> bool:
    """Whether a browser says that the request comes from a page of this very board; older ones do not say."""
    return request.headers.get("sec-fetch-site", "same-origin") in ("same-origin", "none")


def _signed_in(request: Request, session: Session) -> Optional[WebSession]:
    cookie = request.cookies.get(cookie_name(request), "")
    return sessions.signed_in(session, cookie) if 0 < len(cookie) <= 100 else None


# The cookies. SameSite=Lax: a link to the board from elsewhere finds one signed in; a form from elsewhere does not.
def _secure(request: Request) -> bool:
    return request.app.state.settings.secure


def cookie_name(request: Request) -> str:
    """Of the session. With TLS a browser holds the name itself to Secure, to this host, and to the whole of it."""
    return "__Host-board" if _secure(request) else "board"


def set_cookie(request: Request, response: Response, name: str, value: str, seconds: int, same_site: Any) -> None:
    """A cookie that no script can read."""
    response.set_cookie(name, value, seconds, path="/", secure=_secure(request), httponly=True, samesite=same_site)


def drop_cookie(request: Request, response: Response, name: str) -> None:
    """End a cookie."""
    response.delete_cookie(name, path="/", secure=_secure(request), httponly=True, samesite="lax")


# Signing in has a guard as well, so that nobody can be signed in as somebody else without noticing.
def gate_cookie(request: Request) -> str:
    """The cookie of the sign-in page."""
    return "__Host-gate" if _secure(request) else "gate"


def fresh_gate() -> str:
    """Its value."""
    return secrets.token_urlsafe(32)


def gate_guard(cookie: str) -> str:
    """What the form carries for a cookie."""
    return hashed(f"gate {cookie}")


def guard(value: str) -> Callable[[], Markup]:
    """For templates: the hidden field of a form."""
    return lambda: Markup('<input type="hidden" name="csrf" value="{}">').format(value)


def _about(web: WebSession) -> Dict[str, Any]:
    person = web.person
    staff = sees_all(person)
    places = [Place("/", "Ranking"), Place("/mine", "My submissions"), Place("/queue", "Queue")]
    if staff:
        places += [Place("/submissions", "All submissions"), Place("/people", "People")]
    if person.role in INSTRUCTORS:
        places += [Place("/class", "Class")]
    viewer = Viewer(person.name, person.role, staff, person.of_class.name, tuple(places))
    return {"viewer": viewer, "guard": guard(web.csrf)}
