"""What the API answers, as documents. Times that rank are milliseconds, waits are seconds, moments are UTC."""

from datetime import datetime
from typing import Any, Dict, List, Optional

from pydantic import BaseModel

from ..store.models import Judgement, Submission
from ..store.reading import Detail


class Wait(BaseModel):
    """Where a submission stands in the queue. Without a grader nobody knows when it begins."""

    place: int
    ahead: int
    start_in: Optional[float]
    end_in: Optional[float]


class Judged(BaseModel):
    """What a judging came to."""

    purpose: str
    status: str
    reason: str
    ranked: bool
    op_ms: Optional[float]
    layer_ms: Optional[float]
    points: float
    out_of: float
    seconds: float
    finished_at: datetime


class Sent(BaseModel):
    """A submission."""

    id: str
    name: str
    author: str
    digest: str
    size: int
    final: bool
    status: str
    submitted_at: datetime
    judgement: Optional[Judged] = None
    finals: List[Judged] = []
    wait: Optional[Wait] = None
    rank: Optional[int] = None
    verdict: Optional[Dict[str, Any]] = None


class Line(BaseModel):
    """A line of a log."""

    number: int
    at: datetime
    text: str


class Log(BaseModel):
    """Lines of a log, and whether more will come."""

    lines: List[Line]
    status: str
    ended: bool


class Ranked(BaseModel):
    """A line of the ranking."""

    place: int
    name: str
    own: bool
    op_ms: float
    layer_ms: Optional[float]
    final: bool
    submitted_at: datetime
    submissions: int
    submission_id: Optional[str]


class Waiting(BaseModel):
    """A line of the queue."""

    place: int
    name: str
    own: bool
    submission_id: Optional[str]
    state: str
    purpose: str
    queued_at: datetime


class Me(BaseModel):
    """Who asks, and the class."""

    name: str
    role: str
    pseudonym: str
    team: Optional[str]
    of_class: str
    edition: str
    backend: str
    deadline: Optional[datetime]
    finalised_at: Optional[datetime]
    gpu_seconds_left: Optional[float]
    most_bytes: int
    queue: int
    graders: int


def judged(one: Judgement) -> Judged:
    """Of a row."""
    return Judged(**{name: getattr(one, name) for name in Judged.model_fields})


def sent(one: Submission) -> Sent:
    """Of a submission, with what its judgings came to."""
    fields = ("id", "name", "digest", "size", "final", "status", "submitted_at")
    first = [judged(row) for row in one.judgements if row.purpose == "first"]
    finals = [judged(row) for row in one.judgements if row.purpose != "first"]
    return Sent(**{name: getattr(one, name) for name in fields}, author=one.person.name,
                judgement=first[0] if first else None, finals=finals)  # fmt: skip


def whole(one: Detail, rank: Optional[int]) -> Sent:
    """Of all that a viewer may see of a submission."""
    wait = Wait(**one.wait._asdict()) if one.wait else None
    return sent(one.submission).model_copy(update={"wait": wait, "rank": rank, "verdict": one.verdict})
