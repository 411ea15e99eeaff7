"""What templates are given: plain values, with nothing of the database in them."""

from datetime import datetime
from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

from ....present.content import Table
from ...store.types import CANCELLED, FAILED, JUDGED, QUEUED, REFUSED, RUNNING
from .chart import Plot


class Figure(NamedTuple):
    """A number that a page begins with."""

    name: str
    value: str
    unit: str = ""
    mine: bool = False


class State(NamedTuple):
    """A word for where something stands, and its colour: good, bad, busy or "" for none."""

    word: str
    kind: str = ""


_STATES = {
    QUEUED: State("queued"), RUNNING: State("running", "busy"), JUDGED: State("judged", "good"),
    REFUSED: State("refused", "bad"), FAILED: State("failed", "busy"), CANCELLED: State("cancelled"),
}  # fmt: skip


def state(status: str, ranked: bool = True) -> State:
    """Of a submission or a job. What was judged and may not be ranked says so."""
    return State("not ranked", "bad") if status == JUDGED and not ranked else _STATES.get(status, State(status))


class Pager(NamedTuple):
    """Addresses of the pages beside this one; "" for none."""

    newer: str = ""
    older: str = ""


class RankRow(NamedTuple):
    """A line of the ranking. `real` is a name beside a pseudonym, for those who may see it."""

    rank: int
    who: str
    real: str
    mine: bool
    ms: float
    share: Optional[float]  # of cuDNN's time
    when: datetime


class Ranking(NamedTuple):
    """The page of the ranking. `rows` are drawn already."""

    edition: str
    backend: str
    deadline: Optional[datetime]
    deadline_word: str
    basis: str
    figures: Sequence[Figure]
    plots: Sequence[Plot]
    plot_words: str
    counted: str
    compared: str
    rows: Sequence[Any]
    address: str


class SubmissionRow(NamedTuple):
    """A line of a list of submissions."""

    id: str
    who: str
    state: State
    note: str  # its place, while it waits
    ms: Optional[float]
    points: str
    when: datetime
    file: str
    best: bool


class Submissions(NamedTuple):
    """A list of submissions: one's own, or a class's."""

    title: str
    lead: str
    heading: str
    figures: Sequence[Figure]
    rows: Sequence[SubmissionRow]
    whose: bool  # whether there is a column of names
    pager: Pager
    follow: bool
    version: str
    empty: str
    command: str


class Found(NamedTuple):
    """A finding, with what to do."""

    follows: str
    kind: str
    text: str
    advice: str


class Tables(NamedTuple):
    """Tables under a heading."""

    heading: str
    tables: Sequence[Table]


class Lines(NamedTuple):
    """A text as a program wrote it, under a heading."""

    name: str
    heading: str
    text: str


class Submission(NamedTuple):
    """The page of one submission."""

    id: str
    file: str
    who: str  # "" for one's own
    when: datetime
    final: bool
    state: State
    said: str
    figures: Sequence[Figure]
    findings: Sequence[Found]
    tables: Sequence[Tables]
    texts: Sequence[Lines]
    facts: Sequence[Tuple[str, str]]
    follow: bool
    version: str
    may_cancel: bool
    may_document: bool


class QueueRow(NamedTuple):
    """A line of the queue. `id` is "" where the viewer may not see the submission."""

    place: str
    who: str
    mine: bool
    id: str
    state: State
    wait: str
    when: datetime


class Queue(NamedTuple):
    """The page of the queue."""

    lead: str
    mine: List[str]
    heading: str
    rows: Sequence[QueueRow]
    more: str
    version: str


class PersonRow(NamedTuple):
    """Somebody of the class, for its staff."""

    id: int
    name: str
    role: str
    team: str
    pseudonym: str
    submissions: int
    seconds: str


class People(NamedTuple):
    """The page of the people. `issued` are (name, token), shown this once."""

    rows: Sequence[PersonRow]
    may_change: bool
    issued: Sequence[Tuple[str, str]]


class Settings(NamedTuple):
    """The page of the class; numbers and moments as its form shows them."""

    edition: str
    backend: str
    created: datetime
    figures: Sequence[Figure]
    deadline: str
    gpu_seconds: str
    cudnn_ms: str
    names_open: bool
    finalising: str


class Audit(NamedTuple):
    """The page of the audit log; rows are the store's."""

    rows: Sequence[Any]
    pager: Pager
