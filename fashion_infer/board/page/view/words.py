"""Values as a page shows them."""

from datetime import datetime, timezone
from typing import Optional, Union

from ....system.text import shown

NONE = "\u2013"  # in a table's cell
_MOST_LOG = 200_000  # characters of a log on a page; the whole of it is one click away


def milliseconds(ms: Optional[float], short: bool = False) -> str:
    """A time with four significant digits at most, as a ranking needs to tell two apart; `short` for an axis."""
    if ms is None:
        return NONE
    if short:
        return f"{ms:g}"
    return f"{ms:,.1f}" if ms >= 100 else f"{ms:.2f}" if ms >= 10 else f"{ms:.3f}"


def seconds(value: Optional[float]) -> str:
    """A span for people: the largest unit that says enough."""
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


def until(when: Optional[datetime], now: datetime) -> str:
    """How far a moment is: in 3 days, 5 min ago."""
    if when is None:
        return ""
    gap = (when - now).total_seconds()
    return f"in {seconds(gap)}" if gap >= 0 else f"{seconds(-gap)} ago"


def moment(when: Optional[datetime]) -> str:
    """A time in UTC."""
    return "" if when is None else f"{utc(when):%-d %b %Y, %H:%M} UTC"


def machine(when: Optional[datetime]) -> str:
    """A time for `datetime=`."""
    return "" if when is None else f"{utc(when):%Y-%m-%dT%H:%M:%SZ}"


def utc(when: Union[datetime, float]) -> datetime:
    """A moment with its zone: one without is UTC, and a number is seconds since the epoch."""
    if not isinstance(when, datetime):
        return datetime.fromtimestamp(when, timezone.utc)
    return when.replace(tzinfo=timezone.utc) if when.tzinfo is None else when.astimezone(timezone.utc)


def line(text: object) -> str:
    """Text of somebody's on one line: nothing invisible, nothing that turns the direction of writing."""
    return shown(str(text))


def log(text: str) -> str:
    r"""A log: its lines and tabs stay, every other control character is shown as an escape."""
    if len(text) > _MOST_LOG:
        text = text[:_MOST_LOG] + "\n… cut here: the whole log is in the file\n"
    return "\n".join("\t".join(map(shown, one.split("\t"))) for one in text.replace("\r\n", "\n").split("\n"))


def size(count: int) -> str:
    """Bytes."""
    return f"{count:,} B" if count < 10240 else f"{count / 1024:,.0f} KiB"
