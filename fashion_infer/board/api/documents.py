"""JSON documents that the API returns. Fields named `_ms` are in milliseconds, other durations in seconds."""

from datetime import datetime
from typing import Any, Dict, List, Optional

from pydantic import BaseModel, ConfigDict, Field

from ..store.expectation import ExpectedWait


class ApiDocument(BaseModel):
    """Base of all documents. A document can be made from any object with attributes of the same names."""

    model_config = ConfigDict(from_attributes=True)


class JudgementDocument(ApiDocument):
    purpose: str  # "first", "test", "final-1" to "final-5"
    status: str  # judged, incorrect, refused, failed
    reason: str
    ranked: bool
    op_ms: Optional[float]
    layer_ms: Optional[float]
    points: float
    out_of: float
    seconds: float
    finished_at: datetime


class SubmissionDocument(ApiDocument):
    id: str
    name: str
    author: str
    digest: str
    size: int
    final: bool
    test: bool
    status: str  # queued, running, judged, incorrect, refused, failed, cancelled
    submitted_at: datetime
    judgement: Optional[JudgementDocument] = None
    finals: List[JudgementDocument] = []
    wait: Optional[ExpectedWait] = None
    rank: Optional[int] = None
    verdict: Optional[Dict[str, Any]] = None


class LogLineDocument(ApiDocument):
    number: int = Field(validation_alias="id")
    at: datetime
    text: str


class LogDocument(ApiDocument):
    """Lines of a submission's log. `ended` is true if no line will follow."""

    lines: List[LogLineDocument]
    status: str
    ended: bool


class RankDocument(ApiDocument):
    place: int
    name: str  # or a pseudonym
    own: bool  # whether it is the line of the reader or the reader's team
    op_ms: float
    layer_ms: Optional[float]
    final: bool
    submitted_at: datetime
    submissions: int
    submission_id: Optional[str]


class PersonDocument(ApiDocument):
    name: str
    role: str
    pseudonym: str
    team: Optional[str]
    of_class: str
    edition: str
    backend: str
    deadline: Optional[datetime]
    finalised_at: Optional[datetime]
    gpu_seconds_left: Optional[float]  # remaining device time; null if it is unlimited
    most_bytes: int  # size limit of a submission
    queue: int  # number of waiting jobs in the class's queue
    graders: int  # number of graders of that queue
