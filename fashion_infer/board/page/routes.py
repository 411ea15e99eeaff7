"""Handlers of the pages' URLs. The type of `visit` says who may read a page."""

import json
from typing import List

from fastapi import APIRouter, Request
from fastapi.responses import Response
from sqlalchemy import and_

from .. import marks, verdicts
from ..access import Address, OpenStore
from ..store import audit as audits
from ..store import final_runs, queries
from ..store.admission import gpu_seconds_left
from ..store.expectation import slots_of
from ..store.models import PENDING, Content, Person, SubmissionRow
from ..store.ranking import key_of
from . import forms, rendering
from .session import Anyone, Instructor, PageRoute, Staff, Visit, number
from .standings import ClassStanding, standings

router = APIRouter(include_in_schema=False, default_response_class=Response, route_class=PageRoute)
_YEAR = 31_536_000  # seconds
_MOST_LINES = 5000  # largest number of log lines on a submission's page
_MOST_JOBS = 50  # largest number of jobs on the queue's page; the reader's own jobs are always shown
_PAGE = 50  # number of submissions per page
_ENTRIES = 100  # number of entries of the audit log per page
# Headers for a picture. They allow styles in it, because it cannot run scripts or load anything.
_PICTURE = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox; frame-ancestors 'none'"}


def _standing(visit: Visit) -> ClassStanding:
    return standings(visit.request).of(visit.session, visit.of_class)


def _place(standing: ClassStanding, person: Person):
    return next((place for place in standing.places if place.key == key_of(person)), None)


@router.get("/")
def ranking(visit: Anyone) -> Response:
    standing = _standing(visit)
    return visit.html(
        "ranking.html",
        standing=standing,
        mine=_place(standing, visit.person),
        own=standing.curves.get(key_of(visit.person)),
        alike=standings(visit.request).likenesses(visit.session, visit.of_class) if visit.staff else {},
    )


@router.get("/ranking.svg")
def chart(visit: Anyone) -> Response:
    narrow = visit.request.query_params.get("width") == "narrow"
    zone = rendering.zone_of(visit.request)
    drawn = standings(visit.request).chart(visit.session, visit.of_class, key_of(visit.person), narrow, zone)
    return Response(drawn, 200, _PICTURE, "image/svg+xml")


@router.get("/mine")
def mine(visit: Anyone) -> Response:
    place = _place(_standing(visit), visit.person)
    return _submissions(
        visit,
        "My submissions",
        queries.by(visit.person),
        "/mine?",
        mine=True,
        place=place,
        left=gpu_seconds_left(visit.session, visit.person),
    )


@router.get("/submissions")
def submissions(visit: Staff) -> Response:
    wanted = visit.request.query_params.get("person")
    of_class = SubmissionRow.class_id == visit.of_class.id
    if wanted is None:
        return _submissions(visit, "All submissions", of_class, "/submissions?")
    person = visit.session.get(Person, number(wanted, 2**31 - 1))
    if person is None or person.class_id != visit.of_class.id:
        raise queries.NotFound
    address = f"/submissions?person={person.id}&"
    return _submissions(visit, f"Submissions of {person.name}", and_(of_class, queries.by(person)), address)


def _submissions(visit: Visit, title: str, condition, path: str, mine=False, place=None, left=None) -> Response:
    rows = queries.submissions(visit.session, condition, _PAGE + 1, visit.start)
    pending = any(row.status in PENDING for row in rows[:_PAGE])
    queue = queries.queue(visit.session, visit.of_class.backend) if pending else []
    jobs = {job.submission_id: job for job in reversed(queue)}
    return visit.html(
        "submissions.html",
        title=title,
        rows=rows[:_PAGE],
        jobs=jobs,
        mine=mine,
        place=place,
        left=left,
        places=len(_standing(visit).places),
        follow=pending,
        pages=_pages(visit, path, _PAGE, len(rows)),
    )


def _pages(visit: Visit, path: str, page: int, found: int):
    """Return the URLs of the pages with newer and older rows; "" if there is none. `found` is at most page + 1 rows."""
    newer = f"{path}start={max(0, visit.start - page)}" if visit.start else ""
    return newer, f"{path}start={visit.start + page}" if found > page else ""


@router.get("/submissions/{identifier}")
def submission(visit: Anyone, identifier: str) -> Response:
    found = queries.detail(visit.session, identifier, visit.person)
    row, judgement, standing = found.submission, found.submission.judgement, _standing(visit)
    place = _place(standing, row.person)
    times = visit.staff or verdicts.shown(found.verdict).get("times", True) is True
    parts = verdicts.parts(found.verdict or {}, visit.staff)
    source: List[verdicts.SourceLine] = []
    if row.person_id == visit.person.id:  # the staff's reading is in the audit log, so they download it
        content = visit.session.get_one(Content, identifier).content
        said = [one.text for one in parts.findings] + [one.text for one in parts.explained]
        said += [judgement.reason] if judgement else []
        source = verdicts.source_lines(content, row.name, said)
    log, zone = queries.log_lines(visit.session, row, limit=_MOST_LINES), rendering.zone_of(visit.request)
    return visit.html(
        "submission.html",
        row=row,
        wait=found.wait,
        verdict=found.verdict,
        place=place,
        places=len(standing.places),
        best=place is not None and standing.best_of.get(place.key) == identifier,
        times=times,
        of_a_test=verdicts.OF_A_TEST,
        sentence=verdicts.sentence(row.status, judgement, found.verdict, times),
        parts_of=parts,
        source=source,
        log="\n".join(f"{line.at.astimezone(zone):%H:%M:%S}  {line.text}" for line in log),
        pending=row.status in PENDING,
    )


@router.get("/submissions/{identifier}/file")
def file(visit: Anyone, store: OpenStore, address: Address, identifier: str) -> Response:
    found, content = queries.content_of(store, identifier, visit.person, address)
    return rendering.download(content, "application/octet-stream", found.name)


@router.get("/submissions/{identifier}/log.txt")
def log(visit: Anyone, identifier: str) -> Response:
    found = queries.find(visit.session, identifier, visit.person)
    lines = queries.log_lines(visit.session, found, limit=10**6)
    text = "".join(f"{line.at:%Y-%m-%dT%H:%M:%SZ} {line.text}\n" for line in lines)
    return rendering.download(text.encode("utf-8", "replace"), "text/plain; charset=utf-8", f"{found.id}.log")


@router.get("/submissions/{identifier}/verdict.json")
def document(visit: Staff, identifier: str) -> Response:
    found = queries.detail(visit.session, identifier, visit.person)
    if found.verdict is None:
        raise queries.NotFound
    return rendering.download(json.dumps(found.verdict, indent=1).encode(), "application/json", f"{identifier}.json")


@router.get("/queue")
def queue(visit: Anyone) -> Response:
    jobs = [job.seen(visit.person) for job in queries.queue(visit.session, visit.of_class.backend)]
    shown = [job for index, job in enumerate(jobs) if index < _MOST_JOBS or job.own]
    return visit.html("queue.html", jobs=jobs, shown=shown, slots=slots_of(visit.session, visit.of_class.backend))


@router.get("/why")
def why(visit: Anyone) -> Response:
    return visit.html("why.html", sections=rendering.why())


@router.get("/people")
def people(visit: Staff) -> Response:
    return visit.html("people.html", rows=queries.roster(visit.session, visit.of_class), issued=())


@router.get("/class")
def settings(visit: Instructor) -> Response:
    return visit.html(
        "class.html",
        counts=queries.counts(visit.session, visit.of_class),
        formats=list(marks.FORMATS),
        left=final_runs.runs_left(visit.session, visit.of_class),
        seconds=final_runs.seconds_left(visit.session, visit.of_class),
    )


@router.get("/class/audit")
def audit(visit: Instructor) -> Response:
    visit.request.app.state.refused.write()
    rows = audits.entries(visit.session, visit.of_class, _ENTRIES + 1, visit.start)
    return visit.html("audit.html", rows=rows[:_ENTRIES], pages=_pages(visit, "/class/audit?", _ENTRIES, len(rows)))


@router.get("/class/{name}.csv")
def exported(visit: Instructor, name: str) -> Response:
    if name not in marks.FORMATS:
        raise queries.NotFound
    text = marks.as_csv(visit.session, visit.of_class, name)
    return rendering.download(text.encode(), "text/csv; charset=utf-8", f"{visit.of_class.name}-{name}.csv")


@router.get("/static/{version}/{name}")
def static(request: Request, version: str, name: str) -> Response:
    found = rendering.static_files().get(name)
    if found is None:
        return rendering.problem(request, 404, "Not found", "There is no such file.")
    content, kind = found
    kept = f"public, max-age={_YEAR}, immutable" if version == rendering.version() else "no-cache"
    return Response(content, 200, {"Cache-Control": kept}, kind)


router.include_router(forms.router)
