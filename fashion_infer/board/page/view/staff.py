"""The pages of the staff: people, the class's settings, the audit log."""

import csv
from datetime import datetime
from typing import Dict, List, Optional, Sequence, Tuple

from sqlalchemy import func, select
from sqlalchemy.orm import Session, joinedload

from ....errors import UsageError
from ...store import finalising
from ...store.audit import of_class
from ...store.models import AuditEntry, Class, Judgement, Person, Submission
from ...store.types import PENDING
from . import values, words

A_PAGE = 100
_MOST_SECONDS = 1e9


def people(session: Session, of: Class, may_change: bool, issued: Sequence[Tuple[str, str]] = ()) -> values.People:
    """Everybody of a class, by name."""
    counts = _by_person(session, of, func.count(Submission.id), False)
    seconds = _by_person(session, of, func.sum(Judgement.seconds), True)
    query = select(Person).where(Person.class_id == of.id).options(joinedload(Person.team))
    rows = [
        values.PersonRow(
            one.id, one.name, one.role, one.team.name if one.team else "", one.pseudonym, int(counts.get(one.id, 0)),
            f"{seconds.get(one.id, 0):,.0f}",
        )
        for one in session.scalars(query.order_by(func.lower(Person.name)))
    ]  # fmt: skip
    return values.People(rows, may_change, issued)


def _by_person(session: Session, of: Class, what, judged: bool) -> Dict[int, float]:
    query = select(Submission.person_id, what).where(Submission.class_id == of.id).group_by(Submission.person_id)
    if judged:
        query = query.join(Judgement, Judgement.submission_id == Submission.id).where(Judgement.purpose == "first")
    return {person: value or 0 for person, value in session.execute(query)}


def settings(session: Session, of: Class) -> values.Settings:
    """The class."""

    def count(*where) -> int:
        return (
            session.scalar(select(func.count()).select_from(Submission).where(Submission.class_id == of.id, *where))
            or 0
        )

    members = session.scalar(select(func.count()).select_from(Person).where(Person.class_id == of.id)) or 0
    figures = [
        values.Figure("People", f"{members:,}"), values.Figure("Submissions", f"{count():,}"),
        values.Figure("Waiting or running", f"{count(Submission.status.in_(PENDING)):,}"),
    ]  # fmt: skip
    left = finalising.runs_left(session, of)
    final = f"The ranking is final since {words.moment(of.finalised_at)}." if of.finalised_at else ""
    said = f"{left} of the leaders' runs wait or run." if left else final
    return values.Settings(
        of.edition, of.backend, of.created_at, figures, f"{of.deadline:%Y-%m-%dT%H:%M+00:00}" if of.deadline else "",
        _plain(of.gpu_seconds), _plain(of.cudnn_ms), of.names_open, said,
    )  # fmt: skip


def change(of: Class, fields: Dict[str, str]) -> List[str]:
    """Set a class's settings from its form; what changed, in words. UsageError for what cannot be read."""
    wanted = {
        "deadline": moment(fields.get("deadline", "")),
        "gpu_seconds": _number(fields.get("gpu_seconds", ""), "device seconds"),
        "cudnn_ms": _number(fields.get("cudnn_ms", ""), "cuDNN's time"),
        "names_open": fields.get("names_open") == "yes",
    }
    changed = []
    for name, value in wanted.items():
        if getattr(of, name) != value:
            setattr(of, name, value)
            changed.append(f"{name} = {value}")
    return changed


def moment(text: str) -> Optional[datetime]:
    """A moment with its zone; None for ""; UsageError for others."""
    text = text.strip()
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text[:-1] + "+00:00" if text.endswith("Z") else text)
    except ValueError:
        raise UsageError(f"a deadline is written as 2026-12-05T23:59-06:00, not {text[:40]!r}") from None
    if found.tzinfo is None:
        raise UsageError("a deadline needs its zone: 2026-12-05T23:59-06:00")
    if not 1970 < found.year < 9998:
        raise UsageError("a deadline lies within the years 1971 to 9997")
    return found


def _number(text: str, what: str) -> Optional[float]:
    text = text.strip()
    if not text:
        return None
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 < found <= _MOST_SECONDS:
        raise UsageError(f"{what}: a number above 0, or empty for none")
    return found


def _plain(value: Optional[float]) -> str:
    return "" if value is None else f"{value:.10g}"


def listed(text: str) -> List[Tuple[str, str, str]]:
    """(name, role, team) of a form's lines; UsageError for a line that is none."""
    people = []
    for row in csv.reader(line for line in text.splitlines() if line.strip()):
        cells = [cell.strip() for cell in row]
        if not 0 < len(cells) <= 3 or not cells[0]:
            raise UsageError("a line is a name, or a name, a role and a team with commas between")
        name, role, team = [*cells, "", ""][:3]
        people.append((name, role, team))
    if not people:
        raise UsageError("name somebody: a person a line")
    if len(people) > 1000:
        raise UsageError("no more than 1,000 people at a time")
    return people


def audit(session: Session, of: Class, start: int) -> values.Audit:
    """The audit log, newest first."""
    query = select(AuditEntry).where(of_class(of)).order_by(AuditEntry.id.desc())
    rows = list(session.scalars(query.offset(start).limit(A_PAGE + 1)))
    pager = values.Pager(
        f"/class/audit?start={max(0, start - A_PAGE)}" if start else "",
        f"/class/audit?start={start + A_PAGE}" if len(rows) > A_PAGE else "",
    )
    return values.Audit(rows[:A_PAGE], pager)
