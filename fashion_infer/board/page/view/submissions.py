"""Lists of submissions: one's own, and for the staff those of the class or of one person."""

from typing import List, NamedTuple, Optional

from sqlalchemy import and_, select
from sqlalchemy.orm import Session

from ...store.accepting import gpu_seconds_left
from ...store.models import Class, Judgement, Person, Submission
from ...store.ranking import key_of
from ...store.types import PENDING
from .. import queue_cache as lines
from ..standing import Standing
from . import queues, values, words

A_PAGE = 50


class Slice(NamedTuple):
    """Some submissions, newest first."""

    rows: list
    more: bool


def read(session: Session, condition, start: int) -> Slice:
    """Submissions that a condition of ours picks, with their first judgement; without what is large."""
    query = (
        select(
            Submission.id, Submission.name, Submission.status, Submission.submitted_at, Submission.final,
            Person.name.label("who"), Judgement.op_ms, Judgement.points, Judgement.out_of, Judgement.ranked,
        )
        .join(Submission.person)
        .outerjoin(Judgement, and_(Judgement.submission_id == Submission.id, Judgement.purpose == "first"))
        .where(condition)
        .order_by(Submission.submitted_at.desc(), Submission.id)
    )  # fmt: skip
    rows = list(session.execute(query.offset(start).limit(A_PAGE + 1)))
    return Slice(rows[:A_PAGE], len(rows) > A_PAGE)


def own(
    session: Session, person: Person, standing: Standing, line: List[lines.InLine], start: int, command: str
) -> values.Submissions:
    """One's own."""
    found = read(session, Submission.person_id == person.id, start)
    rank = next((place for place in standing.places if place.key == key_of(person)), None)
    figures = []
    if rank is not None:
        figures.append(values.Figure("Your rank", str(rank.place), f"of {len(standing.places)}", True))
        figures.append(values.Figure("Your best", words.milliseconds(rank.op_ms), "ms", True))
    left = gpu_seconds_left(session, person)
    if left is not None:
        figures.append(values.Figure("Device time left", f"{max(left, 0):,.0f}", "s"))
    best = rank.op_ms if rank is not None else None
    return _page(
        "My submissions", "", found, line, start, "/mine?", best, figures, whose=False, command=command,
        empty="You have handed in nothing yet." + ("" if person.of_class.deadline is None else
              f" The class takes submissions until {words.moment(person.of_class.deadline)}."),
    )  # fmt: skip


def of_class(
    session: Session, of: Class, person: Optional[Person], line: List[lines.InLine], start: int
) -> values.Submissions:
    """A class's, or those of one of its people; for its staff alone."""
    condition = Submission.class_id == of.id
    if person is not None:
        condition = and_(condition, Submission.person_id == person.id)
    found = read(session, condition, start)
    address = "/submissions?" if person is None else f"/submissions?person={person.id}&"
    title = "All submissions" if person is None else f"Submissions of {person.name}"
    return _page(title, "", found, line, start, address, None, [], whose=person is None, empty="There are none yet.",
                 command="")  # fmt: skip


def _page(title, lead, found: Slice, line, start, address, best, figures, whose, empty, command) -> values.Submissions:
    rows = [_row(row, line, best) for row in found.rows]
    pager = values.Pager(
        f"{address}start={max(0, start - A_PAGE)}" if start else "",
        f"{address}start={start + A_PAGE}" if found.more else "",
    )
    follow = any(row.status in PENDING for row in found.rows)
    heading = "Newest first" if not start else f"From number {start + 1} on"
    stamp = " ".join(f"{row.id}{row.state.word}{row.note}" for row in rows)
    return values.Submissions(title, lead, heading, figures, rows, whose, pager, follow, stamp, empty, command)


def _row(row, line: List[lines.InLine], best: Optional[float]) -> values.SubmissionRow:
    job = lines.find(line, row.id) if row.status in PENDING else None
    note = queues.short(job) if job is not None else "final" if row.final else ""
    judged = row.out_of is not None and row.out_of > 0
    return values.SubmissionRow(
        row.id, row.who, values.state(row.status, row.ranked is not False), note, row.op_ms if row.ranked else None,
        f"{row.points:g} of {row.out_of:g}" if judged else words.NONE, row.submitted_at, row.name,
        best is not None and bool(row.ranked) and row.op_ms == best,
    )  # fmt: skip


def number(text: Optional[str], most: int = 10**6) -> int:
    """A number of an address; 0 for what is none."""
    return min(int(text), most) if text is not None and text.isascii() and text.isdigit() and len(text) < 10 else 0
