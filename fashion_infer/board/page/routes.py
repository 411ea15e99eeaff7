"""The addresses of the pages, and who may look at which."""

import json
from typing import Optional

from fastapi import APIRouter, Request
from fastapi.responses import Response

from .. import exporting
from ..store import reading
from ..store.audit import record
from ..store.expectation import slots_of
from ..store.models import Person
from . import actions, queue_cache, responses
from .session import ALL, INSTRUCTORS, STAFF, Asked, missing, reader, store
from .standing import Standing, Standings
from .view import queues, rankings, staff
from .view import submission as one
from .view import submissions as lists

router = APIRouter(include_in_schema=False)
_YEAR = 31_536_000  # seconds
_MOST_LINES = 5000  # of a log on its page


def _get(path: str, roles, work) -> None:
    router.add_api_route(path, reader(roles, work), methods=["GET"], response_class=Response, name=work.__name__)


def _standing(asked: Asked) -> Standing:
    state = asked.request.app.state
    if not hasattr(state, "standings"):
        state.standings = Standings()
    return state.standings.of(asked.session, asked.of_class)


def _line(asked: Asked):
    return actions.queues(asked.request).of(asked.session, asked.of_class.backend)


def standings(asked: Asked) -> Response:
    """The ranking."""
    page = rankings.gather(asked.of_class, asked.person, _standing(asked), str(asked.request.base_url).rstrip("/"))
    return asked.html("ranking.html", page=page)


def mine(asked: Asked) -> Response:
    """One's own submissions."""
    command = f"fashion-infer submit new-forward.cu --to {str(asked.request.base_url).rstrip('/')}"
    start = lists.number(asked.request.query_params.get("start"))
    page = lists.own(asked.session, asked.person, _standing(asked), _line(asked), start, command)
    return asked.html("submissions.html", page=page)


def submissions(asked: Asked) -> Response:
    """Everybody's, or somebody's, for the staff."""
    wanted = asked.request.query_params.get("person")
    person: Optional[Person] = None
    if wanted is not None:
        person = asked.session.get(Person, lists.number(wanted, 2**31 - 1))
        if person is None or person.class_id != asked.of_class.id:
            return missing(asked)
    start = lists.number(asked.request.query_params.get("start"))
    page = lists.of_class(asked.session, asked.of_class, person, _line(asked), start)
    return asked.html("submissions.html", page=page)


def submission(asked: Asked) -> Response:
    """One submission."""
    found = reading.detail(asked.session, asked.request.path_params["identifier"], asked.person)
    if found is None:
        return missing(asked)
    log = reading.log_lines(asked.session, found.submission, limit=_MOST_LINES)
    job = queue_cache.find(_line(asked), found.submission.id) if found.wait is not None else None
    return asked.html("submission.html", page=one.gather(found, asked.person, log, job, _standing(asked)))


def file(asked: Asked) -> Response:
    """The bytes of a submission. What the staff reads of others is in the audit log."""
    found = reading.find(asked.session, asked.request.path_params["identifier"], asked.person)
    if found is None:
        return missing(asked)
    if found.person_id != asked.person.id:
        with store(asked.request).write() as session:
            record(session, asked.person.name, "read code", found.id, asked.of_class, asked.address)
    return responses.plain(reading.content_of(asked.session, found), "application/octet-stream", found.name)


def log(asked: Asked) -> Response:
    """The whole log, as text."""
    found = reading.find(asked.session, asked.request.path_params["identifier"], asked.person)
    if found is None:
        return missing(asked)
    text = "".join(f"{row.at:%Y-%m-%dT%H:%M:%SZ} {row.text}\n" for row in
                   reading.log_lines(asked.session, found, limit=10**6))  # fmt: skip
    return responses.plain(text.encode("utf-8", "replace"), "text/plain; charset=utf-8", f"{found.id}.log")


def document(asked: Asked) -> Response:
    """The verdict, for the staff."""
    found = reading.detail(asked.session, asked.request.path_params["identifier"], asked.person)
    if found is None or found.verdict is None:
        return missing(asked)
    text = json.dumps(found.verdict, indent=1)
    return responses.plain(text.encode(), "application/json", f"{found.submission.id}.json")


def queue(asked: Asked) -> Response:
    """What runs and waits."""
    slots = slots_of(asked.session, asked.of_class.backend)
    return asked.html("queue.html", page=queues.gather(_line(asked), asked.of_class, asked.person, slots))


def people(asked: Asked) -> Response:
    """Everybody of the class, for the staff."""
    may_change = asked.person.role in INSTRUCTORS
    return asked.html("people.html", page=staff.people(asked.session, asked.of_class, may_change))


def settings(asked: Asked) -> Response:
    """The class's settings."""
    return asked.html("class.html", page=staff.settings(asked.session, asked.of_class))


def audit(asked: Asked) -> Response:
    """The audit log."""
    start = lists.number(asked.request.query_params.get("start"))
    asked.request.app.state.refused.write()
    return asked.html("audit.html", page=staff.audit(asked.session, asked.of_class, start))


def exported(asked: Asked) -> Response:
    """The ranking with names, as CSV."""
    text = exporting.as_csv(asked.session, asked.of_class)
    return responses.plain(text.encode(), "text/csv; charset=utf-8", f"{asked.of_class.name}.csv")


@router.get("/static/{version}/{name}", response_class=Response)
def static(request: Request, version: str, name: str) -> Response:
    """A file of the pages' own."""
    found = responses.static_files().get(name)
    if found is None:
        return responses.problem(request, 404, "Not found", "There is no such file.")
    content, kind = found
    kept = f"public, max-age={_YEAR}, immutable" if version == responses.version() else "no-cache"
    return Response(content, 200, {"Cache-Control": kept}, kind)


_get("/", ALL, standings)
_get("/mine", ALL, mine)
_get("/queue", ALL, queue)
_get("/submissions", STAFF, submissions)
_get("/submissions/{identifier}", ALL, submission)
_get("/submissions/{identifier}/file", ALL, file)
_get("/submissions/{identifier}/log.txt", ALL, log)
_get("/submissions/{identifier}/verdict.json", STAFF, document)
_get("/people", STAFF, people)
_get("/class", INSTRUCTORS, settings)
_get("/class/audit", INSTRUCTORS, audit)
_get("/class/ranking.csv", INSTRUCTORS, exported)
router.include_router(actions.router)
