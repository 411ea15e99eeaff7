"""The API's endpoints, under /api/v1."""

import asyncio
import time
from typing import Annotated, Callable, List, Optional, TypeVar

from fastapi import APIRouter, HTTPException, Path, Query, Request, Response
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool

from ..access import Address, Credentials, OpenStore, Reading, Someone, body, person_of
from ..store import admission, queries, queue
from ..store import ranking as ranks
from ..store.expectation import slots_of
from ..store.models import ENDED, Person
from .documents import LogDocument, LogLineDocument, PersonDocument, RankDocument, SubmissionDocument

router = APIRouter()
Identifier = Annotated[str, Path(pattern=r"^[a-z0-9]{1,32}$", description="The submission's identifier.")]
Key = Annotated[Optional[str], Query(pattern=r"^[A-Za-z0-9._:-]{1,120}$", description="Chosen by the client.")]
_REFUSALS = {
    code: {"description": words}
    for code, words in (
        (401, "The token is not valid on this board."),
        (403, "Not allowed, or after the deadline."),
        (404, "Not found."),
        (409, "In conflict with the state of a submission."),
        (413, "Too large."),
        (422, "Malformed."),
        (429, "A limit is exceeded; see Retry-After."),
        (503, "Try again."),
    )
}
_PAUSE, _LONGEST_PAUSE = 0.25, 2.0  # shortest and longest seconds between two looks at a log
Seen = TypeVar("Seen")


def _refusals(*codes: int):
    return {code: _REFUSALS[code] for code in codes}


@router.get("/me", responses=_refusals(401))
def me(session: Reading, who: Someone) -> PersonDocument:
    """Return the person who sends the request, and the person's class."""
    of = who.of_class
    return PersonDocument(
        name=who.name,
        role=who.role,
        pseudonym=who.pseudonym,
        team=who.team.name if who.team else None,
        of_class=of.name,
        edition=of.edition,
        backend=of.backend,
        deadline=of.deadline,
        finalised_at=of.finalised_at,
        gpu_seconds_left=admission.gpu_seconds_left(session, who),
        most_bytes=of.most_bytes,
        queue=queries.waiting(session, of.backend),
        graders=slots_of(session, of.backend),
    )


@router.post(
    "/submissions",
    status_code=201,
    responses={
        200: {"model": SubmissionDocument, "description": "An earlier request stored it."},
        **_refusals(401, 403, 409, 413, 422, 429, 503),
    },
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
        }
    },
)
async def submit(
    request: Request,
    response: Response,
    store: OpenStore,
    came_from: Address,
    credentials: Credentials,
    name: Annotated[str, Query(min_length=1, max_length=200, description="The file's name.")],
    key: Key = None,
    of_class: Annotated[Optional[str], Query(max_length=60, alias="class")] = None,
    final: bool = False,
    test: bool = False,
) -> SubmissionDocument:
    """Submit the body, a kernel file or an archive. The answer is sent after the submission is stored.

    Several requests with the same `key` make only one submission. So do, without a key, several requests with the same
    bytes, the same `final` and the same `test`. A test is judged and timed once, and gets neither rank nor marks.
    """

    def most_bytes() -> int:
        with store.read() as session:
            who = person_of(session, credentials)
            if of_class is not None and of_class != who.of_class.name:
                raise HTTPException(403, f"your token is for the class {who.of_class.name}")
            return who.of_class.most_bytes

    def keep():
        with store.write() as session:
            who = person_of(session, credentials)
            made, fresh = admission.accept(session, who, name, content, key, final, test, came_from)
        with store.read() as session:
            return _document(session, made.id, person_of(session, credentials)), fresh

    content = await body(request, await run_in_threadpool(most_bytes))
    document, fresh = await run_in_threadpool(keep)
    response.status_code = 201 if fresh else 200
    response.headers["Location"] = f"/api/v1/submissions/{document.id}"
    return document


def _document(session: Session, identifier: str, who: Person) -> SubmissionDocument:
    found = queries.detail(session, identifier, who)
    rank = None
    if found.submission.judgement is not None and found.submission.judgement.ranked:
        key = ranks.key_of(found.submission.person)
        rank = next((one.place for one in ranks.ranking(session, who.of_class, who) if one.key == key), None)
    whole = SubmissionDocument.model_validate(found.submission)
    return whole.model_copy(update={"wait": found.wait, "rank": rank, "verdict": found.verdict})


@router.get("/submissions", responses=_refusals(401), response_model=List[SubmissionDocument])
def history(session: Reading, who: Someone, limit: Annotated[int, Query(ge=1, le=1000)] = 100):
    """Return your submissions, newest first."""
    return queries.submissions(session, queries.by(who), limit=limit)


@router.get("/submissions/{identifier}", responses=_refusals(401, 404))
def submission(session: Reading, who: Someone, identifier: Identifier) -> SubmissionDocument:
    """Return a submission, with its position in the queue, or with its verdict and rank."""
    return _document(session, identifier, who)


@router.get("/submissions/{identifier}/log", responses=_refusals(401, 404))
async def log(
    store: OpenStore,
    credentials: Credentials,
    identifier: Identifier,
    after: Annotated[int, Query(ge=0, le=2**31 - 1)] = 0,
    wait: Annotated[float, Query(ge=0, le=25)] = 0,
) -> LogDocument:
    """Return the log's lines whose number is above `after`. If there are none, wait up to `wait` seconds for one."""

    def look() -> LogDocument:
        with store.read() as session:
            found = queries.find(session, identifier, person_of(session, credentials))
            lines = queries.log_lines(session, found, after)
            shown = [LogLineDocument.model_validate(line) for line in lines]
            # After an answer with the largest number of lines, the log may have more, so that it has not ended.
            return LogDocument(lines=shown, status=found.status, ended=found.status in ENDED and len(lines) < 1000)

    return await _until(look, lambda seen: seen.lines or seen.ended, time.monotonic() + wait)


async def _until(look: Callable[[], Seen], enough: Callable[[Seen], object], end: float) -> Seen:
    pause = _PAUSE
    while True:
        seen = await run_in_threadpool(look)
        left = end - time.monotonic()
        if enough(seen) or left <= 0:
            return seen
        await asyncio.sleep(min(pause, left))
        pause = min(1.5 * pause, _LONGEST_PAUSE)


@router.post("/submissions/{identifier}/cancel", responses=_refusals(401, 404, 409))
def cancel(store: OpenStore, who: Someone, came_from: Address, identifier: Identifier) -> SubmissionDocument:
    """Cancel a queued or running submission."""
    with store.write() as session:
        found = queries.find(session, identifier, who)
        if not queue.cancel(session, found, who.name, came_from):
            raise HTTPException(409, f"the submission has already ended, with the status {found.status}")
    with store.read() as session:
        return _document(session, identifier, who)


@router.get("/ranking", responses=_refusals(401), response_model=List[RankDocument])
def ranking(session: Reading, who: Someone):
    """Return the ranking of your class. You see others by pseudonyms, unless you are staff or the class shows names."""
    return ranks.ranking(session, who.of_class, who)
