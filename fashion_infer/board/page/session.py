"""Dependencies of the pages: a signed-in person, a role, and a form that comes from that person's page."""

import contextlib
import secrets
from typing import Annotated, Any, Dict, Iterator, Optional, Tuple
from urllib.parse import parse_qs

from fastapi import Depends, HTTPException, Request
from fastapi.responses import Response
from fastapi.routing import APIRoute
from sqlalchemy.orm import Session

from ...errors import UsageError
from ..access import Address, OpenStore, Reading, body
from ..store import sessions
from ..store.admission import NotTaken
from ..store.audit import count
from ..store.database import Store
from ..store.models import Class, Person, WebSession
from ..store.people import hashed, sees_all
from ..store.queries import NotFound
from ..store.types import INSTRUCTOR, ROLES, STUDENT
from .rendering import html, problem, see

MOST_FORM = 1 << 16  # bytes
_MOST_FIELDS = 20
_FORM = "application/x-www-form-urlencoded"


class PageAnswer(Exception):
    """An answer that ends a request early."""

    def __init__(self, answer: Response):
        super().__init__()
        self.answer = answer


class PageRoute(APIRoute):
    """A route of a page: errors are answered by pages."""

    def get_route_handler(self):
        """Wrap FastAPI's handler."""
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            try:
                return await handler(request)
            except PageAnswer as early:
                return early.answer
            except NotFound:  # one page for what is missing and for what belongs to somebody else
                return problem(request, 404, "Not found", "There is no such page, or you may not see it.")
            except NotTaken as error:
                return problem(request, error.status, "Not accepted", str(error))
            except UsageError as error:
                return problem(request, 422, "Not done", str(error))

        return handle


class Visit:
    """A request of a person who is signed in.

    Attributes
    ----------
    session
        The database's, for queries; within `transaction`, that transaction.
    web
        The browser's session.
    fields
        The form's.
    """

    def __init__(self, request: Request, store: Store, session: Session, web: WebSession, address: str):
        self.request, self._store, self.address = request, store, address
        self.session, self.web = session, web
        self.fields: Dict[str, str] = {}

    @property
    def person(self) -> Person:
        """The person who asks."""
        return self.web.person

    @property
    def of_class(self) -> Class:
        """The person's class: pages know of no other."""
        return self.web.person.of_class

    @property
    def staff(self) -> bool:
        """Whether the person may see everything of the class."""
        return sees_all(self.person)

    @property
    def start(self) -> int:
        """The first row of a list that the address asks for."""
        return number(self.request.query_params.get("start"))

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Session]:
        """Write to the database: all of the block or, when it raises, nothing. Signs in anew within the transaction."""
        before = self.web
        self.session.close()
        try:
            with self._store.write() as self.session:
                self.web = _signed_in(self.request, self.session) or _leave(self.request)
                yield self.session
        except Exception:
            self.web = before  # rows of a transaction that failed cannot be read any more
            raise

    def html(self, template: str, **values) -> Response:
        """Fill a template."""
        return html(self.request, template, **values)

    def see(self, path: str) -> Response:
        """Redirect to another page."""
        return see(self.request, path)


def number(text: Optional[str], most: int = 10**6) -> int:
    """Return a number of an address or a form; 0 for anything else."""
    return min(int(text), most) if text is not None and text.isascii() and text.isdigit() and len(text) < 10 else 0


def _signed_in(request: Request, session: Session) -> Optional[WebSession]:
    cookie = request.cookies.get(cookie_name(request), "")
    return sessions.signed_in(session, cookie) if 0 < len(cookie) <= 100 else None


def _leave(request: Request) -> Any:
    raise PageAnswer(see(request, "/login"))


def _visit(request: Request, store: OpenStore, session: Reading, address: Address) -> Visit:
    web = _signed_in(request, session) or _leave(request)
    session.close()  # it opens again for the next query: meanwhile a form may arrive slowly
    request.state.visit = Visit(request, store, session, web, address)
    return request.state.visit


Anyone = Annotated[Visit, Depends(_visit)]


def _refuse(visit: Visit, text: str = "This page is for the staff of the class.") -> None:
    raise PageAnswer(problem(visit.request, 403, "Not allowed", text))


def _reader(*roles: str):
    def check(visit: Anyone) -> Visit:
        if visit.person.role not in roles:
            _refuse(visit)
        return visit

    return Annotated[Visit, Depends(check)]


Staff = _reader(*(role for role in ROLES if role != STUDENT))
Instructor = _reader(INSTRUCTOR)


def check_site(request: Request) -> None:
    """Refuse a form that a browser says comes from another site; older browsers do not say."""
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise PageAnswer(problem(request, 403, "Not allowed", "This form comes from another site."))


def check_guard(visit: Visit) -> None:
    """Refuse a form that does not carry the session's CSRF token."""
    if not sessions.csrf_ok(visit.web, visit.fields.get("csrf", "")):
        _refuse(visit, "This form is not from a page of yours: go back, reload that page, and try again.")


async def _fields(request: Request) -> Dict[str, str]:
    """Return the first value of each field of a form; HTTPException 413, 415 or 422 for other bodies."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM:
        raise HTTPException(415, f"a form of this board is {_FORM}")
    content = await body(request, MOST_FORM, "the form")
    try:
        fields = parse_qs(content.decode("ascii"), keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="strict")
    except ValueError:
        raise HTTPException(422, "this form cannot be read") from None
    return {name: values[0] for name, values in fields.items()}


Fields = Annotated[Dict[str, str], Depends(_fields)]


def _poster(*roles: str):
    def check(visit: Anyone, fields: Fields) -> Visit:
        visit.fields = fields
        check_site(visit.request)
        check_guard(visit)
        if visit.person.role not in roles:
            with visit.transaction() as session:
                path = visit.request.scope["route"].path  # the pattern: anything may be in the address
                count(session, visit.person.name, "refused", 1, visit.of_class.id, visit.address, path)
            _refuse(visit)
        return visit

    return Annotated[Visit, Depends(check)]


Posted = _poster(*ROLES)
PostedByInstructor = _poster(INSTRUCTOR)


# The cookies. SameSite=Lax: a link to the board from elsewhere finds its reader signed in; a form from elsewhere does
# not. With TLS a browser binds a __Host- cookie to Secure, to this host and to the whole of it.
def cookie_name(request: Request, name: str = "board") -> str:
    """Return the name of a cookie: the session's, or the sign-in page's."""
    return f"__Host-{name}" if request.app.state.settings.secure else name


def set_cookie(request: Request, response: Response, name: str, value: str, seconds: int, same_site: Any) -> None:
    """Set a cookie that no script can read."""
    response.set_cookie(cookie_name(request, name), value, seconds, path="/", httponly=True, samesite=same_site,
                        secure=request.app.state.settings.secure)  # fmt: skip


def drop_cookie(request: Request, response: Response, name: str) -> None:
    """End a cookie."""
    response.delete_cookie(cookie_name(request, name), path="/", httponly=True, samesite="lax",
                           secure=request.app.state.settings.secure)  # fmt: skip


# The sign-in page has a guard as well, so that nobody is signed in as somebody else without noticing.
def gate(request: Request) -> Tuple[str, str]:
    """Return the sign-in page's cookie, "" when the browser has none, and the guard of its form."""
    cookie = request.cookies.get(cookie_name(request, "gate"), "")
    return (cookie, gate_guard(cookie)) if 20 < len(cookie) < 100 else ("", "")


def fresh_gate() -> str:
    """Return a new value for the sign-in page's cookie."""
    return secrets.token_urlsafe(32)


def gate_guard(cookie: str) -> str:
    """Return the guard that the form carries for a cookie."""
    return hashed(f"gate {cookie}")
