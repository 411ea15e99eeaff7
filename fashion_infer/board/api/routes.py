"""The API's addresses, under /api/v1."""

import hashlib
import time
from typing import Annotated, List, Optional

from fastapi import APIRouter, HTTPException, Path, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from ..store import accepting, queue, reading
from ..store import ranking as ranks
from ..store.audit import record
from ..store.models import Person
from ..store.types import ENDED
from . import documents, waiting
from .who import Credentials, Reading, Someone, address, person_of

router = APIRouter()
Identifier = Annotated[str, Path(pattern=r"^[a-z0-9]{1,32}$", description="A submission's.")]
Key = Annotated[Optional[str], Query(pattern=r"^[A-Za-z0-9._:-]{1,120}$", description="The client's own id.")]
Digest = Annotated[Optional[str], Query(pattern=r"^[0-9a-f]{64}$", description="Of the body, to find damage.")]
_NONE = "there is no such submission of yours"
_REFUSALS = {code: {"description": words} for code, words in (
    (401, "No token of this board."), (403, "Not allowed, or after the deadline."), (404, "None of yours."),
    (409, "The identifier is another submission's."), (413, "Too large."), (422, "Not as it must be."),
    (429, "Beyond a limit; Retry-After says when to come again."), (503, "Try again."))}  # fmt: skip


def _refusals(*codes: int):
    return {code: _REFUSALS[code] for code in codes}


@router.get("/me", responses=_refusals(401))
def me(session: Reading, who: Someone) -> documents.Me:
    """Who asks, and the class's settings."""
    of = who.of_class
    return documents.Me(
        name=who.name, role=who.role, pseudonym=who.pseudonym, team=who.team.name if who.team else None,
        of_class=of.name, edition=of.edition, backend=of.backend, deadline=of.deadline, finalised_at=of.finalised_at,
        gpu_seconds_left=accepting.gpu_seconds_left(session, who), most_bytes=of.most_bytes,
        queue=reading.waiting(session, of.backend), graders=waiting.graders(session, of.backend),
    )  # fmt: skip


@router.post(
    "/submissions", status_code=201, responses={200: {"model": documents.Sent, "description": "It is here already."},
                                                **_refusals(401, 403, 409, 413, 422, 429, 503)},
    openapi_extra={"requestBody": {"required": True, "content": {"application/octet-stream": {
        "schema": {"type": "string", "format": "binary"}}}}},
)  # fmt: skip
async def submit(
    request: Request, response: Response, credentials: Credentials,
    name: Annotated[str, Query(min_length=1, max_length=200, description="The file's.")],
    key: Key = None, sha256: Digest = None,
    of_class: Annotated[Optional[str], Query(max_length=60, alias="class")] = None,
    final: bool = False,
) -> documents.Sent:  # fmt: skip
    """Hand in the body: a kernel file or an archive. Answered once it is stored whole.

    The same `key` (without one: the same bytes) is the same submission, however often it is sent.
    """
    store, came_from = request.app.state.store, address(request)
    most = await run_in_threadpool(_most_bytes, store, credentials, of_class)
    content = await _body(request, most)
    if sha256 is not None and hashlib.sha256(content).hexdigest() != sha256:
        raise HTTPException(422, "the body is not what its SHA-256 says: send it again")

    def keep():
        with store.write() as session:
            who = person_of(session, credentials)
            taken = accepting.accept(session, who, name, content, key, final, came_from)
            identifier, fresh = taken.submission.id, taken.fresh
        with store.read() as session:
            return _whole(session, identifier, person_of(session, credentials)), fresh

    document, fresh = await run_in_threadpool(keep)
    response.status_code = 201 if fresh else 200
    response.headers["Location"] = f"/api/v1/submissions/{document.id}"
    return document


def _most_bytes(store, credentials, of_class: Optional[str]) -> int:
    with store.read() as session:
        who = person_of(session, credentials)
        if of_class is not None and of_class != who.of_class.name:
            raise HTTPException(403, f"your token is of the class {who.of_class.name}")
        return who.of_class.most_bytes


async def _body(request: Request, most: int) -> bytes:
    """The body, of which no more is read than may come. What a header says of its length is not believed."""
    said = request.headers.get("content-length", "0")
    content = bytearray()
    if not said.isdigit() or int(said) <= most:
        async for piece in request.stream():
            content += piece
            if len(content) > most:
                break
        else:
            return bytes(content)
    raise HTTPException(413, f"the submission has more than {most} bytes")


def _whole(session, identifier: str, who: Person) -> documents.Sent:
    found = reading.detail(session, identifier, who)
    if found is None:
        raise HTTPException(404, _NONE)
    rank = None
    if found.judgement is not None and found.judgement.ranked:
        key = ranks.key_of(found.author)
        rank = next((one.place for one in ranks.ranking(session, who.of_class, who) if one.key == key), None)
    return documents.whole(found, rank)


@router.get("/submissions", responses=_refusals(401))
def history(
    session: Reading, who: Someone, limit: Annotated[int, Query(ge=1, le=1000)] = 100
) -> List[documents.Sent]:  # fmt: skip
    """One's own submissions, newest first."""
    return [documents.sent(one) for one in reading.submissions_of(session, who, limit)]


@router.get("/submissions/{identifier}", responses=_refusals(401, 404))
def submission(session: Reading, who: Someone, identifier: Identifier) -> documents.Sent:
    """A submission: its place in the queue, or its verdict and rank."""
    return _whole(session, identifier, who)


@router.get("/submissions/{identifier}/log", responses=_refusals(401, 404))
async def log(
    request: Request, credentials: Credentials, identifier: Identifier,
    after: Annotated[int, Query(ge=0, le=2**31 - 1)] = 0, wait: Annotated[float, Query(ge=0, le=25)] = 0,
) -> documents.Log:  # fmt: skip
    """Lines of a log after a number. With `wait` the answer comes with the next line, or after so many seconds."""
    store = request.app.state.store

    def look() -> documents.Log:
        with store.read() as session:
            found = reading.find(session, identifier, person_of(session, credentials))
            if found is None:
                raise HTTPException(404, _NONE)
            lines = reading.log_lines(session, found, after)
            shown = [documents.Line(number=line.id, at=line.at, text=line.text) for line in lines]
            # More lines than one answer takes: it has not ended for this reader.
            return documents.Log(lines=shown, status=found.status, ended=found.status in ENDED and len(lines) < 1000)

    return await waiting.until(look, lambda seen: seen.lines or seen.ended, time.monotonic() + wait)


@router.get("/submissions/{identifier}/content", responses=_refusals(401, 404), response_class=Response)
def content(request: Request, who: Someone, identifier: Identifier) -> Response:
    """A submission's bytes, as they came. What staff reads of others is in the audit log."""
    with request.app.state.store.write() as session:
        found = reading.find(session, identifier, who)
        if found is None:
            raise HTTPException(404, _NONE)
        if found.person_id != who.id:
            record(session, who.name, "read code", found.id, found.of_class, address(request))
        named = {"Content-Disposition": f'attachment; filename="{found.name}"'}
        return Response(reading.content_of(session, found), media_type="application/octet-stream", headers=named)


@router.post("/submissions/{identifier}/cancel", responses=_refusals(401, 404, 409))
def cancel(request: Request, who: Someone, identifier: Identifier) -> documents.Sent:
    """Take a submission out of the queue, or stop its grader."""
    store = request.app.state.store
    with store.write() as session:
        found = reading.find(session, identifier, who)
        if found is None:
            raise HTTPException(404, _NONE)
        if not queue.cancel(session, found, who.name, address(request)):
            raise HTTPException(409, f"it has ended already: {found.status}")
    with store.read() as session:
        return _whole(session, identifier, who)


@router.get("/ranking", responses=_refusals(401))
def ranking(session: Reading, who: Someone) -> List[documents.Ranked]:
    """The ranking of one's class. Others are pseudonyms unless the instructor opens names."""
    return [documents.Ranked(**{name: getattr(one, name) for name in documents.Ranked.model_fields})
            for one in ranks.ranking(session, who.of_class, who)]  # fmt: skip


@router.get("/queue", responses=_refusals(401))
def the_queue(session: Reading, who: Someone) -> List[documents.Waiting]:
    """The queue that one's class waits in."""
    return [documents.Waiting(**one._asdict()) for one in reading.queue(session, who.of_class, who)]
