"""Writes and reads the audit log. An entry has a person, an action and its object, a time and an address."""

from datetime import datetime
from typing import List, Optional

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from .models import AuditEntry, Class
from .types import now

SOMEBODY = "somebody"
MOST_A_DAY = 100  # largest number of rows per action and day that `count` adds, besides one row that counts all others


def record(
    session: Session, actor: str, action: str, what: str = "", class_id: Optional[int] = None, address: str = ""
) -> None:
    """Add an entry to the audit log, in the same transaction as the action. `what` must never be a secret."""
    session.add(AuditEntry(actor=actor, action=action, what=what[:1000], class_id=class_id, address=address[:64]))


def count(
    session: Session,
    actor: str,
    action: str,
    times: int = 1,
    class_id: Optional[int] = None,
    address: str = "",
    what: str = "",
    at: Optional[datetime] = None,
) -> None:
    """Count an action that anyone can repeat without limit, in one entry per day and combination of arguments.

    Once there are `MOST_A_DAY` entries, one entry counts all further combinations.
    """
    at = at or now()
    today = (AuditEntry.at >= at.replace(hour=0, minute=0, second=0, microsecond=0), AuditEntry.action == action)
    address, what = address[:64], what[:1000]
    for whose, of, where, which in ((actor, class_id, address, what), (SOMEBODY, None, "", "")):
        known = session.scalar(
            select(AuditEntry)
            .where(
                *today,
                AuditEntry.actor == whose,
                AuditEntry.class_id.is_not_distinct_from(of),
                AuditEntry.address == where,
                AuditEntry.what == which,
            )
            .limit(1)
            .with_for_update()
        )
        if known is not None:
            known.times += times
            return
        if (whose == SOMEBODY and not where) or (
            session.scalar(select(func.count()).select_from(AuditEntry).where(*today)) or 0
        ) < MOST_A_DAY:
            session.add(
                AuditEntry(actor=whose, action=action, what=which, class_id=of, address=where, times=times, at=at)
            )
            return


def entries(session: Session, of: Class, limit: int = 200, start: int = 0) -> List[AuditEntry]:
    """Return the class's entries and those without a class, newest first: at most `limit`, after the first `start`."""
    seen = or_(AuditEntry.class_id == of.id, AuditEntry.class_id.is_(None))
    query = select(AuditEntry).where(seen).order_by(AuditEntry.id.desc())
    return list(session.scalars(query.offset(start).limit(limit)))
