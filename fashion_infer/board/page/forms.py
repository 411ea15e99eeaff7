"""Handlers of the pages' forms: signing in and out, submitting, cancelling, and changes by instructors."""

import secrets
from typing import Annotated, Any, Optional

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response
from starlette.formparsers import MultiPartException, MultiPartParser

from ...errors import UsageError
from ..access import Address, OpenStore, Reading, body
from ..store import admission, class_settings, final_runs, people, queries, queue, sessions
from ..store.audit import SignInAttempt, record
from ..store.models import Person
from . import session as web
from .rendering import html, see
from .session import Anyone, Fields, PageRoute, Posted, PostedByInstructor, Visit, number

router = APIRouter(include_in_schema=False, default_response_class=Response, route_class=PageRoute)


@router.get("/login")
def login_page(request: Request) -> Response:
    return _login(request)


@router.post("/login")
def login(request: Request, store: OpenStore, session: Reading, address: Address, fields: Fields) -> Response:
    web.check_site(request)
    cookie, guard = web.gate(request)
    if not cookie or fields.get("csrf") != guard:
        return _login(request, 403, "This page was open for too long, or your browser refused its cookie. Try again.")
    token, session_cookie = fields.get("token", "").strip(), None
    known, meant = people.authenticate(session, token), people.named_by(session, token)
    session.close()  # so that guessed tokens do not make others wait for a lock
    if known is not None:
        with store.write() as writing:
            session_cookie = sessions.sign_in(writing, token, address)
    if session_cookie is None:
        return _refused(request, SignInAttempt(address), meant)
    answer = see(request, "/")
    web.set_cookie(request, answer, "board", session_cookie, int(sessions.LIFE.total_seconds()), "lax")
    web.set_cookie(request, answer, "gate", "", 0, "lax")
    return answer


def _refused(request: Request, who: SignInAttempt, meant: Optional[Person]) -> Response:
    """Answer a sign-in with an invalid token whose selector belongs to `meant`. Only invalid tokens are limited."""
    if meant is not None:
        who = who._replace(actor=meant.name, class_id=meant.class_id)
    wait = request.app.state.refused.add(who)
    if wait is None:
        return _login(request, 401, "This token is not valid on this board. Ask your instructor for a new one.")
    answer = _login(request, 429, f"Too many invalid tokens from your network: try again in {wait} s.")
    answer.headers["Retry-After"] = str(wait)
    return answer


def _login(request: Request, status: int = 200, notice: str = "") -> Response:
    cookie, _ = web.gate(request)
    fresh = "" if cookie else secrets.token_urlsafe(32)
    answer = html(request, "login.html", status, guard=web.gate_guard(fresh or cookie), notice=notice)
    if fresh:
        web.set_cookie(request, answer, "gate", fresh, 3600, "strict")
    return answer


@router.post("/logout")
def logout(visit: Posted) -> Response:
    with visit.transaction() as session:
        sessions.sign_out(session, visit.web)
    answer = visit.see("/login")
    web.set_cookie(visit.request, answer, "board", "", 0, "lax")
    return answer


async def _upload(visit: Anyone) -> Any:
    """Return the name and bytes of the uploaded file. A body above the class's size limit is refused."""
    web.check_site(visit.request)
    content = await body(visit.request, visit.of_class.most_bytes + web.MOST_FORM)

    async def pieces():
        yield content

    try:
        form = await MultiPartParser(visit.request.headers, pieces(), max_files=1, max_fields=3).parse()
    except (MultiPartException, KeyError):
        raise UsageError("the form cannot be read: reload the page and try again") from None
    try:
        visit.fields = {name: value for name, value in form.items() if isinstance(value, str)}
        web.check_guard(visit)
        file: Any = form.get("file")
        if not getattr(file, "filename", None):
            raise UsageError("choose a file: a kernel file or an archive")
        return file.filename[-200:], await file.read()
    finally:
        await form.close()


@router.post("/submit")
def submit(visit: Anyone, file: Annotated[Any, Depends(_upload)]) -> Response:
    name, content = file
    final, test = "final" in visit.fields, "test" in visit.fields
    with visit.transaction() as session:
        made, _ = admission.accept(session, visit.person, name, content, None, final, test, visit.address)
    return visit.see(f"/submissions/{made.id}")


@router.post("/submissions/{identifier}/cancel")
def cancel(visit: Posted, identifier: str) -> Response:
    with visit.transaction() as session:
        found = queries.find(session, identifier, visit.person)
        if not queue.cancel(session, found, visit.person.name, visit.address):
            raise UsageError(f"It can no longer be cancelled: it is {found.status}.")
    return visit.see(f"/submissions/{found.id}")


@router.post("/class")
def change(visit: PostedByInstructor) -> Response:
    with visit.transaction() as session:
        changed = class_settings.change(visit.of_class, visit.fields)
        if changed:
            record(session, visit.person.name, "settings", ", ".join(changed), visit.of_class.id, visit.address)
    return visit.see("/class")


@router.post("/class/finalise")
def finalise(visit: PostedByInstructor) -> Response:
    leaders = number(visit.fields.get("leaders"), 1000)
    if not leaders:
        raise UsageError("Enter the number of leaders whose submissions run again, 1 or more.")
    with visit.transaction() as session:
        final_runs.check(session, visit.of_class)
        if not final_runs.queue_leaders(session, visit.of_class, leaders, visit.person.name):
            final_runs.close(session, visit.of_class)
    return visit.see("/class#end")


@router.post("/people")
def add(visit: PostedByInstructor) -> Response:
    wanted = class_settings.listed(visit.fields.get("people", ""))
    with visit.transaction() as session:
        joined = people.join(session, visit.of_class, wanted, visit.person.name, visit.address)
        return _people(visit, [(one.person.name, one.token) for one in joined])


@router.post("/people/{person}/token")
def token(visit: PostedByInstructor, person: str) -> Response:
    with visit.transaction() as session:
        found = session.get(Person, number(person, 2**31 - 1))
        if found is None or found.class_id != visit.of_class.id:
            raise queries.NotFound
        if visit.fields.get("do") == "revoke":
            if found.id == visit.person.id:
                raise UsageError("You would lock yourself out: ask another instructor, or use the command line.")
            people.revoke(session, found, visit.person.name, visit.address)
            return visit.see("/people")
        made = people.new_token(session, found)
        record(session, visit.person.name, "new token", found.name, visit.of_class.id, visit.address)
        return _people(visit, [(found.name, made)])


def _people(visit: Visit, issued) -> Response:
    visit.session.flush()
    return visit.html("people.html", rows=queries.roster(visit.session, visit.of_class), issued=issued)
