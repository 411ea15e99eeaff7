"""JSON documents that the API returns. Op Times are in milliseconds, waits in seconds, and dates in UTC."""

from datetime import datetime
from typing import Any, Dict, List, Optional

from pydantic import BaseModel, ConfigDict


class ApiDocument(BaseModel):
    """Base of all documents. A document is filled from the attributes of the store's rows."""

    model_config = ConfigDict(from_attributes=True)


class WaitDocument(ApiDocument):
    """A submission's position in the queue. The times are null while no grader is running."""

    place: int
    ahead: int
    start_in: Optional[float]
    end_in: Optional[float]


class JudgementDocument(ApiDocument):
    """The outcome of a judging."""

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


class SubmissionDocument(ApiDocument):
    """A submission."""

    id: str
    name: str
    author: str
    digest: str
    size: int
    final: bool
    status: str
    submitted_at: datetime
    judgement: Optional[JudgementDocument] = None
    finals: List[JudgementDocument] = []
    wait: Optional[WaitDocument] = None
    rank: Optional[int] = None
    verdict: Optional[Dict[str, Any]] = None


class LogLineDocument(ApiDocument):
    """A line of a log."""

    number: int
    at: datetime
    text: str


class LogDocument(ApiDocument):
    """Lines of a log, and whether the log ends with them."""

    lines: List[LogLineDocument]
    status: str
    ended: bool


class RankDocument(ApiDocument):
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


class QueueDocument(ApiDocument):
    """A line of the queue."""

    place: int
    name: str
    own: bool
    submission_id: Optional[str]
    state: str
    purpose: str
    queued_at: datetime


class PersonDocument(ApiDocument):
    """The person who sent the request, and the person's class."""

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
