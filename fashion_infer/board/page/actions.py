"""The forms of the pages: signing in and out, taking back, and what instructors do."""

from typing import Dict, Optional

from fastapi import APIRouter, Request
from fastapi.responses import Response

from ...errors import UsageError
from ..store import finalising, queue, reading, sessions
from ..store import people as persons
from ..store.audit import record
from ..store.models import Person
from ..store.refused import Who
from . import responses, session
from .queue_cache import Queues
from .session import ALL, INSTRUCTORS, Asked, doer, missing, store
from .view import staff
from .view.submissions import number

router = APIRouter(include_in_schema=False)


def _post(path: str, roles, work) -> None:
    router.add_api_route(path, doer(roles, work), methods=["POST"], response_class=Response, name=work.__name__)


def queues(request: Request) -> Queues:
    """The service's queues, as all see them."""
    state = request.app.state
    if not hasattr(state, "lines"):
        state.lines = Queues()
    return state.lines


@router.get("/login", response_class=Response)
def gate(request: Request) -> Response:
    """The page to sign in."""
    return _gate(request)


@router.post("/login", response_class=Response)
def enter(request: Request, fields: session.Fields) -> Response:
    """Sign in with a token."""
    cookie = request.cookies.get(session.gate_cookie(request), "")
    if not cookie or not session.same_site(request) or fields.get("csrf") != session.gate_guard(cookie):
        return _gate(request, 403, "This page was open for too long: try again.")
    token, made = fields.get("token", "").strip(), None
    with store(request).read() as asking:  # nobody waits for a lock because somebody tries tokens
        known, meant = persons.authenticate(asking, token), persons.named_by(asking, token)
    if known is not None:
        with store(request).write() as writing:
            made = sessions.sign_in(writing, token, session.address(request))
    if made is None:
        return _refused(request, meant)
    answer = responses.see(request, "/")
    seconds = int(sessions.LIFE.total_seconds())
    session.set_cookie(request, answer, session.cookie_name(request), made.cookie, seconds, "lax")
    session.drop_cookie(request, answer, session.gate_cookie(request))
    return answer


def _refused(request: Request, meant: Optional[Person]) -> Response:
    """That it is no token. Who has one is never made to wait for those who try."""
    who = Who(session.address(request))
    if meant is not None:
        who = who._replace(actor=meant.name, class_id=meant.class_id)
    wait = request.app.state.refused.add(who)
    if wait is None:
        return _gate(request, 401, "This is not a token of this board. Ask your instructor for a new one.")
    answer = _gate(request, 429, f"Too many tokens that are none came from here: try again in {wait} s.")
    answer.headers["Retry-After"] = str(wait)
    return answer


def _gate(request: Request, status: int = 200, wrong: str = "") -> Response:
    cookie = request.cookies.get(session.gate_cookie(request), "")
    fresh = "" if 20 < len(cookie) < 100 else session.fresh_gate()
    answer = responses.html(request, "login.html", status, guard=session.guard(session.gate_guard(fresh or cookie)),
                            notice=wrong)  # fmt: skip
    if fresh:
        session.set_cookie(request, answer, session.gate_cookie(request), fresh, 3600, "strict")
    return answer


def leave(asked: Asked, fields: Dict[str, str]) -> Response:
    """Sign out: the session ends here, not only in the browser."""
    sessions.sign_out(asked.session, asked.web)
    answer = responses.see(asked.request, "/login")
    session.drop_cookie(asked.request, answer, session.cookie_name(asked.request))
    return answer


def cancel(asked: Asked, fields: Dict[str, str]) -> Response:
    """Take a submission back."""
    found = reading.find(asked.session, asked.request.path_params["identifier"], asked.person)
    if found is None:
        return missing(asked)
    if not queue.cancel(asked.session, found, asked.person.name, asked.address):
        raise UsageError(f"It cannot be taken back any more: it is {found.status}.")
    queues(asked.request).forget()
    return responses.see(asked.request, f"/submissions/{found.id}")


def change(asked: Asked, fields: Dict[str, str]) -> Response:
    """Change the class's settings."""
    changed = staff.change(asked.of_class, fields)
    if changed:
        record(asked.session, asked.person.name, "settings", ", ".join(changed), asked.of_class, asked.address)
    return responses.see(asked.request, "/class")


def add(asked: Asked, fields: Dict[str, str]) -> Response:
    """Add people; the answer shows their tokens, which nobody can read again."""
    wanted = staff.listed(fields.get("people", ""))
    joined = persons.join(asked.session, asked.of_class, wanted, asked.person.name, asked.address)
    return _issued(asked, [(one.person.name, one.token) for one in joined])


def finalise(asked: Asked, fields: Dict[str, str]) -> Response:
    """Run the leaders again; once their runs are in, call the ranking final."""
    of, leaders = asked.of_class, number(fields.get("leaders"), 1000)
    if not leaders:
        raise UsageError("How many leaders are judged again? A number from 1 on.")
    finalising.check(asked.session, of)
    if not finalising.queue_leaders(asked.session, of, leaders, asked.person.name):
        finalising.close(asked.session, of)
    queues(asked.request).forget()
    return responses.see(asked.request, "/class#end")


def token(asked: Asked, fields: Dict[str, str]) -> Response:
    """Somebody's new token, or the end of all that somebody has."""
    person = asked.session.get(Person, number(asked.request.path_params["person"], 2**31 - 1))
    if person is None or person.class_id != asked.of_class.id:
        return missing(asked)
    if fields.get("do") == "revoke":
        if person.id == asked.person.id:
            raise UsageError("You would lock yourself out: let another instructor do it, or the command line.")
        persons.revoke(asked.session, person, asked.person.name, asked.address)
        return responses.see(asked.request, "/people")
    made = persons.new_token(asked.session, person)
    record(asked.session, asked.person.name, "new token", person.name, asked.of_class, asked.address)
    return _issued(asked, [(person.name, made)])


def _issued(asked: Asked, issued) -> Response:
    asked.session.flush()
    return asked.html("people.html", page=staff.people(asked.session, asked.of_class, True, issued))


_post("/logout", ALL, leave)
_post("/submissions/{identifier}/cancel", ALL, cancel)
_post("/class", INSTRUCTORS, change)
_post("/class/finalise", INSTRUCTORS, finalise)
_post("/people", INSTRUCTORS, add)
_post("/people/{person}/token", INSTRUCTORS, token)
