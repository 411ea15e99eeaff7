"""Constants, a column type and functions that the modules of the store share."""

import secrets
from datetime import datetime, timezone
from typing import Optional

from sqlalchemy import DateTime
from sqlalchemy.types import TypeDecorator

STUDENT, ASSISTANT, INSTRUCTOR = "student", "assistant", "instructor"
ROLES = (STUDENT, ASSISTANT, INSTRUCTOR)
# States of a submission. It is queued, then running, then judged, refused or failed; until then it can be cancelled.
QUEUED, RUNNING, JUDGED, REFUSED, FAILED, CANCELLED = "queued", "running", "judged", "refused", "failed", "cancelled"
DONE = "done"  # state of a job that ended with a judgement of any status
PENDING = (QUEUED, RUNNING)
ENDED = (JUDGED, REFUSED, FAILED, CANCELLED)
_LETTERS = "23456789abcdefghjkmnpqrstuvwxyz"  # no characters that look like others


class Utc(TypeDecorator):
    """Column type of a time in UTC. The Python value has a time zone; the value in the database has none."""

    impl = DateTime(timezone=False)
    cache_ok = True

    def process_bind_param(self, value: Optional[datetime], dialect) -> Optional[datetime]:
        """Convert a time for the database; ValueError if it has no time zone."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("the time has no time zone")
        return value.astimezone(timezone.utc).replace(tzinfo=None)

    def process_result_value(self, value: Optional[datetime], dialect) -> Optional[datetime]:
        return None if value is None else value.replace(tzinfo=timezone.utc)


def now() -> datetime:
    return datetime.now(timezone.utc)


def short_id() -> str:
    """Return a random identifier that people can type. 12 letters from an alphabet of 31 have 59 random bits."""
    return "".join(secrets.choice(_LETTERS) for _ in range(12))
