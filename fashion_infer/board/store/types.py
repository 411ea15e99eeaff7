"""Column types and constants that all tables share."""

import secrets
from datetime import datetime, timezone
from typing import Optional

from sqlalchemy import DateTime
from sqlalchemy.types import TypeDecorator

STUDENT, ASSISTANT, INSTRUCTOR = "student", "assistant", "instructor"
ROLES = (STUDENT, ASSISTANT, INSTRUCTOR)
# States of a submission: it is queued, then running, then in one of the other four states.
QUEUED, RUNNING, JUDGED, REFUSED, FAILED, CANCELLED = "queued", "running", "judged", "refused", "failed", "cancelled"
DONE = "done"  # state of an ended job, whatever the outcome
PENDING = (QUEUED, RUNNING)
ENDED = (JUDGED, REFUSED, FAILED, CANCELLED)
_LETTERS = "23456789abcdefghjkmnpqrstuvwxyz"  # without characters that look alike


class Utc(TypeDecorator):
    """Column type of a time, which is time-zone-aware and in UTC in Python, and without a zone in the database."""

    impl = DateTime(timezone=False)
    cache_ok = True

    def process_bind_param(self, value: Optional[datetime], dialect) -> Optional[datetime]:
        """Convert a time for the database; ValueError for a time without a zone."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("a time without a time zone")
        return value.astimezone(timezone.utc).replace(tzinfo=None)

    def process_result_value(self, value: Optional[datetime], dialect) -> Optional[datetime]:
        """Convert a time from the database."""
        return None if value is None else value.replace(tzinfo=timezone.utc)


def now() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(timezone.utc)


def short_id(letters: int = 12) -> str:
    """Return a new identifier that people can type. 12 letters from an alphabet of 31 have 59 random bits."""
    return "".join(secrets.choice(_LETTERS) for _ in range(letters))
