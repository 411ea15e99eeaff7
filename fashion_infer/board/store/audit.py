"""The audit log: who did what, when, from where."""

from typing import List, Optional

from sqlalchemy import select
from sqlalchemy.orm import Session

from .models import AuditEntry, Class


def record(
    session: Session, actor: str, action: str, what: str = "", of_class: Optional[Class] = None, address: str = ""
) -> None:
    """Add an entry, in the transaction of what it tells.

    Parameters
    ----------
    actor
        A person's name, or "command line".
    action
        A word or two: "submit", "cancel", "sign in", "read code".
    what
        Of what: an identifier, never a secret.
    address
        Where the request came from.
    """
    of = of_class.id if of_class is not None else None
    session.add(AuditEntry(actor=actor, action=action, what=what[:1000], class_id=of, address=address[:64]))


def entries(session: Session, of_class: Class, limit: int = 200) -> List[AuditEntry]:
    """The last entries of a class, newest first."""
    query = select(AuditEntry).where(AuditEntry.class_id == of_class.id).order_by(AuditEntry.id.desc()).limit(limit)
    return list(session.scalars(query))
