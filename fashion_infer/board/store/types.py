"""Column types and small things that every table shares."""

import secrets
from datetime import datetime, timezone
from typing import Optional

from sqlalchemy import DateTime
from sqlalchemy.types import TypeDecorator

STUDENT, ASSISTANT, INSTRUCTOR = "student", "assistant", "instructor"
ROLES = (STUDENT, ASSISTANT, INSTRUCTOR)
# A submission waits, runs, and ends as one of the other four. The first three of these are verdicts' own words.
QUEUED, RUNNING, JUDGED, REFUSED, FAILED, CANCELLED = "queued", "running", "judged", "refused", "failed", "cancelled"
DONE = "done"  # of a job, whatever its submission came to
PENDING = (QUEUED, RUNNING)
ENDED = (JUDGED, REFUSED, FAILED, CANCELLED)
_LETTERS = "23456789abcdefghjkmnpqrstuvwxyz"  # none that looks like another


class Utc(TypeDecorator):
    """A moment: aware and in UTC in Python, without a zone in the database."""

    impl = DateTime(timezone=False)
    cache_ok = True

    def process_bind_param(self, value: Optional[datetime], dialect) -> Optional[datetime]:
        """To the database. A moment without a zone is a mistake."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("a moment without a time zone")
        return value.astimezone(timezone.utc).replace(tzinfo=None)

    def process_result_value(self, value: Optional[datetime], dialect) -> Optional[datetime]:
        """From the database."""
        return None if value is None else value.replace(tzinfo=timezone.utc)


def now() -> datetime:
    """This moment, in UTC."""
    return datetime.now(timezone.utc)


def short_id(letters: int = 12) -> str:
    """A fresh identifier that people can type: 12 of 31 letters are 59 bits."""
    return "".join(secrets.choice(_LETTERS) for _ in range(letters))
