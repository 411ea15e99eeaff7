"""Begins and ends browser sessions. A session's cookie is a secret of 256 bits, whose hash the database stores."""

import hmac
import secrets
from datetime import timedelta
from typing import Optional

from sqlalchemy import delete, select
from sqlalchemy.orm import Session, joinedload

from .audit import record
from .models import Person, WebSession, now
from .people import authenticate, hashed

LIFE = timedelta(hours=12)  # time after which a session expires
MOST = 20  # largest number of sessions per person; a new one beyond it ends the oldest


def sign_in(session: Session, token: str, address: str = "") -> Optional[str]:
    """Begin a session of a token's owner, and return its cookie; None for an invalid token."""
    found = authenticate(session, token)
    if found is None:
        return None
    session.execute(delete(WebSession).where(WebSession.expires_at < now()))
    older = select(WebSession.id).where(WebSession.person_id == found.person_id).order_by(WebSession.id.desc())
    session.execute(delete(WebSession).where(WebSession.id.in_(session.scalars(older.offset(MOST - 1)).all())))
    cookie = secrets.token_urlsafe(32)
    session.add(
        WebSession(
            person_id=found.person_id,
            token_id=found.id,
            hashed=hashed(cookie),
            csrf=secrets.token_urlsafe(32),
            expires_at=now() + LIFE,
        )
    )
    record(session, found.person.name, "sign in", "", found.person.class_id, address)
    return cookie


def signed_in(session: Session, cookie: str) -> Optional[WebSession]:
    """Return the session with a cookie's value; None if it is unknown or expired, or its token was revoked."""
    query = select(WebSession).where(WebSession.hashed == hashed(cookie))
    whole = joinedload(WebSession.person).joinedload(Person.of_class)  # in one query: each page needs all
    found = session.scalar(query.options(joinedload(WebSession.token), whole))
    if found is None or found.expires_at <= now() or found.token.revoked_at is not None:
        return None
    return found


def csrf_ok(of: WebSession, value: str) -> bool:
    """Return whether `value`, from a form, is the CSRF token of a session. The comparison takes constant time."""
    return hmac.compare_digest(of.csrf.encode(), value.encode("utf-8", "surrogateescape"))


def sign_out(session: Session, of: WebSession) -> None:
    session.execute(delete(WebSession).where(WebSession.id == of.id))
    record(session, of.person.name, "sign out", "", of.person.class_id)
