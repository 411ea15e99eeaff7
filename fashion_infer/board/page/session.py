"""FastAPI dependencies of the pages: a signed-in person, perhaps with a role, and the fields of a form."""

import contextlib
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
from ..store.models import INSTRUCTOR, ROLES, STUDENT, Class, Person, WebSession
from ..store.people import hashed, sees_all
from ..store.queries import NotFound
from .rendering import html, problem, see

MOST_FORM = 1 << 16  # size limit of a form in bytes, without an uploaded file
_MOST_FIELDS = 20  # largest number of a form's fields
_FORM = "application/x-www-form-urlencoded"


class PageAnswer(Exception):
    def __init__(self, answer: Response):
        super().__init__()
        self.answer = answer


class PageRoute(APIRoute):
    def get_route_handler(self):
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            try:
                return await handler(request)
            except PageAnswer as early:
                return early.answer
            except NotFound:  # the answer must not tell whether the page exists
                return problem(request, 404, "Not found", "There is no such page, or you may not see it.")
            except NotTaken as error:
                return problem(request, error.status, "Not accepted", str(error))
            except UsageError as error:
                return problem(request, 422, "Not done", str(error))

        return handle


class Visit:
    """A request by a signed-in person. Within `transaction`, `session` is the session of the transaction."""

    def __init__(self, request: Request, store: Store, session: Session, web: WebSession, address: str):
        self.request, self._store, self.address = request, store, address
        self.session, self.web = session, web
        self.fields: Dict[str, str] = {}

    @property
    def person(self) -> Person:
        return self.web.person

    @property
    def of_class(self) -> Class:
        """The person's class, the only one that pages show."""
        return self.web.person.of_class

    @property
    def staff(self) -> bool:
        return sees_all(self.person)

    @property
    def start(self) -> int:
        return number(self.request.query_params.get("start"))

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Session]:
        """Return a context with a write transaction, which an exception undoes. The sign-in is checked again in it."""
        before = self.web
        self.session.close()
        try:
            with self._store.write() as self.session:
                self.web = _signed_in(self.request, self.session) or _leave(self.request)
                yield self.session
        except Exception:
            self.web = before  # rows that the failed transaction read cannot be used
            raise

    def html(self, template: str, **values) -> Response:
        return html(self.request, template, **values)

    def see(self, path: str) -> Response:
        return see(self.request, path)


def number(text: Optional[str], most: int = 10**6) -> int:
    """Return the number in a text from a URL or a form, at most `most`; 0 if the text is not a number."""
    return min(int(text), most) if text is not None and text.isascii() and text.isdigit() and len(text) < 10 else 0


def _signed_in(request: Request, session: Session) -> Optional[WebSession]:
    cookie = request.cookies.get(cookie_name(request), "")
    return sessions.signed_in(session, cookie) if 0 < len(cookie) <= 100 else None


def _leave(request: Request) -> Any:
    raise PageAnswer(see(request, "/login"))


def _visit(request: Request, store: OpenStore, session: Reading, address: Address) -> Visit:
    web = _signed_in(request, session) or _leave(request)
    session.close()  # frees the connection while a form arrives, perhaps slowly; the next query reconnects
    request.state.visit = Visit(request, store, session, web, address)
    return request.state.visit


Anyone = Annotated[Visit, Depends(_visit)]


def _refuse(visit: Visit, text: str = "Your role does not permit this.") -> None:
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
    """Refuse a form if the browser says that it was sent from another site. Older browsers do not say this."""
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise PageAnswer(problem(request, 403, "Not allowed", "This form comes from another site."))


def check_guard(visit: Visit) -> None:
    if not sessions.csrf_ok(visit.web, visit.fields.get("csrf", "")):
        _refuse(visit, "This form does not belong to your session. Go back, reload the page, and try again.")


async def _fields(request: Request) -> Dict[str, str]:
    """Return the first value of each field of a form; HTTPException 413, 415 or 422 if the body is not a valid form."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM:
        raise HTTPException(415, f"send the form as {_FORM}")
    content = await body(request, MOST_FORM, "the form")
    try:
        fields = parse_qs(content.decode("ascii"), keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="strict")
    except ValueError:
        raise HTTPException(422, "the form cannot be read") from None
    return {name: values[0] for name, values in fields.items()}


Fields = Annotated[Dict[str, str], Depends(_fields)]


def _poster(*roles: str):
    def check(visit: Anyone, fields: Fields) -> Visit:
        visit.fields = fields
        check_site(visit.request)
        check_guard(visit)
        if visit.person.role not in roles:
            with visit.transaction() as session:
                path = visit.request.scope["route"].path  # the route's pattern, because a URL may contain anything
                count(session, visit.person.name, "refused", 1, visit.of_class.id, visit.address, path)
            _refuse(visit)
        return visit

    return Annotated[Visit, Depends(check)]


Posted = _poster(*ROLES)
PostedByInstructor = _poster(INSTRUCTOR)


# A cookie with SameSite=Lax is sent if a user follows a link from another site, but not if another site sends a form.
# With TLS, cookies' names begin with __Host-, so that browsers accept them only with Secure, this host and the path /.
def cookie_name(request: Request, name: str = "board") -> str:
    """Return the full name of a cookie: "board" is the session's, "gate" is that of the sign-in page."""
    return f"__Host-{name}" if request.app.state.settings.secure else name


def set_cookie(request: Request, response: Response, name: str, value: str, seconds: int, same_site: Any) -> None:
    """Set a cookie for a number of seconds; 0 deletes it."""
    response.set_cookie(
        cookie_name(request, name),
        value,
        seconds,
        path="/",
        httponly=True,
        samesite=same_site,
        secure=request.app.state.settings.secure,
    )


# The sign-in form also has a CSRF token, so that another site cannot sign a user in as a different person. Before the
# sign-in there is no session, so that the token is computed from a cookie, "gate".
def gate(request: Request) -> Tuple[str, str]:
    """Return the sign-in page's cookie and the CSRF token of its form; both are "" if the browser sent no cookie."""
    cookie = request.cookies.get(cookie_name(request, "gate"), "")
    return (cookie, gate_guard(cookie)) if 20 < len(cookie) < 100 else ("", "")


def gate_guard(cookie: str) -> str:
    """Return the CSRF token of the sign-in form that belongs to a value of the sign-in page's cookie."""
    return hashed(f"gate {cookie}")
