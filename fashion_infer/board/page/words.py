"""Filters of the templates, which format values for a page."""

from datetime import datetime, timezone
from typing import Optional

from ...system.text import shown

FILTERS = ("line", "log", "machine", "milliseconds", "moment", "position", "seconds", "size", "until")
NONE = "\u2013"  # text of an empty table cell
_MOST_LOG = 200_000  # largest number of characters of a log on a page


def milliseconds(ms: Optional[float]) -> str:
    """Format a time in ms, with enough digits to distinguish it from others in a ranking."""
    if ms is None:
        return NONE
    return f"{ms:,.1f}" if ms >= 100 else f"{ms:.2f}" if ms >= 10 else f"{ms:.3f}"


def seconds(value: Optional[float]) -> str:
    """Format a duration in s: in steps of 10 s up to 90 s (at least 10 s), then in whole minutes, hours or days."""
    if value is None:
        return "unknown"
    if value < 10:
        return "10 s"
    if value < 90:
        return f"{round(value / 10) * 10} s"
    for most, unit, name in ((90, 60, "min"), (36, 3600, "h")):
        if value < most * unit:
            return f"{round(value / unit)} {name}"
    return f"{round(value / 86400)} days"


def until(when: datetime, now: datetime) -> str:
    """Format the difference between a time and now, such as "in 3 days" or "5 min ago"."""
    gap = (when - now).total_seconds()
    return f"in {seconds(gap)}" if gap >= 0 else f"{seconds(-gap)} ago"


def moment(when: Optional[datetime]) -> str:
    return "" if when is None else f"{when.astimezone(timezone.utc):%-d %b %Y, %H:%M} UTC"


def machine(when: Optional[datetime]) -> str:
    """Format a date and time for the HTML attribute `datetime`."""
    return "" if when is None else f"{when.astimezone(timezone.utc):%Y-%m-%dT%H:%M:%SZ}"


def position(job) -> str:
    """Describe the place in the queue of a job with the attributes `place` and `start_in`."""
    if job.place == 0:
        return "running now"
    ending = "th" if 10 <= job.place % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(job.place % 10, "th")
    start = "no grader running" if job.start_in is None else f"starts in about {seconds(job.start_in)}"
    return f"{job.place}{ending} in the queue, {start}"


def line(text: object) -> str:
    """Return a user's text on one line, with invisible characters and those that change the direction escaped."""
    return shown(str(text))


def log(text: str) -> str:
    r"""Return a log for a page: shortened if it is too long, with control characters except \n and \t escaped."""
    if len(text) > _MOST_LOG:
        text = text[:_MOST_LOG] + "\n… truncated: the file has the whole log\n"
    return "\n".join("\t".join(map(shown, one.split("\t"))) for one in text.replace("\r\n", "\n").split("\n"))


def size(count: int) -> str:
    return f"{count:,} B" if count < 10240 else f"{count / 1024:,.0f} KiB"
