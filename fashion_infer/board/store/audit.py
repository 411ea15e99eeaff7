"""Writes and reads the audit log, whose entries have a person, an action, a time and an address."""

from datetime import datetime
from typing import List, Optional

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from .models import AuditEntry, Class
from .types import now

SOMEBODY = "somebody"
MOST_A_DAY = 100  # largest number of rows per action and day that `count` adds; one more row counts all others


def record(
    session: Session, actor: str, action: str, what: str = "", class_id: Optional[int] = None, address: str = ""
) -> None:
    """Add an entry to the audit log, in the transaction of the action.

    Parameters
    ----------
    actor
        A person's name, or "command line".
    action
        One or two words: "submit", "cancel", "sign in", "read code".
    what
        The object of the action: an identifier, never a secret.
    address
        Client address of the request.
    """
    session.add(AuditEntry(actor=actor, action=action, what=what[:1000], class_id=class_id, address=address[:64]))


def count(
    session: Session, actor: str, action: str, times: int = 1, class_id: Optional[int] = None, address: str = "",
    what: str = "", at: Optional[datetime] = None,
) -> None:  # fmt: skip
    """Increase the count in the day's entry of an action that anyone can repeat without limit.

    Parameters
    ----------
    actor, action, what, address
        As in `record`.
    times
        How often the action happened.
    at
        Time of the action; None for now.
    """
    at = at or now()
    today = (AuditEntry.at >= at.replace(hour=0, minute=0, second=0, microsecond=0), AuditEntry.action == action)
    address, what = address[:64], what[:1000]
    for whose, of, where, which in ((actor, class_id, address, what), (SOMEBODY, None, "", "")):
        known = session.scalar(select(AuditEntry).where(
            *today, AuditEntry.actor == whose, AuditEntry.class_id.is_not_distinct_from(of),
            AuditEntry.address == where, AuditEntry.what == which).limit(1).with_for_update())  # fmt: skip
        if known is not None:
            known.times += times
            return
        if (whose == SOMEBODY and not where) or (
            session.scalar(select(func.count()).select_from(AuditEntry).where(*today)) or 0) < MOST_A_DAY:  # fmt: skip
            session.add(AuditEntry(actor=whose, action=action, what=which, class_id=of, address=where, times=times,
                                   at=at))  # fmt: skip
            return


def entries(session: Session, of: Class, limit: int = 200, start: int = 0) -> List[AuditEntry]:
    """Return the entries that a class's instructors may see, newest first: the class's, and those without a class."""
    seen = or_(AuditEntry.class_id == of.id, AuditEntry.class_id.is_(None))
    query = select(AuditEntry).where(seen).order_by(AuditEntry.id.desc())
    return list(session.scalars(query.offset(start).limit(limit)))
