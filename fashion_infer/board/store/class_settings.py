"""Parses class settings and lists of people from forms and from the command line."""

import csv
import io
from datetime import datetime, timezone, tzinfo
from typing import Dict, List, Optional

from zoneinfo import ZoneInfo

from ...errors import UsageError
from .models import Class
from .people import ListedPerson

_MOST = 1e9  # largest value of a setting in seconds or milliseconds
_MOST_PEOPLE = 1000  # largest number of people that one form adds


def change(of_class: Class, fields: Dict[str, str]) -> List[str]:
    """Change a class's settings to the fields of its form, and return the changes; UsageError for an invalid value."""
    wanted = {
        # A browser's date picker sends no time zone: the form has the one in which it was filled in.
        "deadline": moment(fields.get("deadline", ""), zone=time_zone(fields["zone"]) if "zone" in fields else None),
        "gpu_seconds": _number(fields.get("gpu_seconds", ""), "device seconds"),
        "cudnn_ms": _number(fields.get("cudnn_ms", ""), "cuDNN's time"),
        "names_open": fields.get("names_open") == "yes",
    }
    changed = []
    for name, value in wanted.items():
        if getattr(of_class, name) != value:
            setattr(of_class, name, value)
            changed.append(f"{name} = {value}")
    return changed


def time_zone(name: str) -> tzinfo:
    try:
        return timezone.utc if name == "UTC" else ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        raise UsageError(f"this machine knows no time zone {name[:40]!r}") from None


def moment(text: str, name: str = "a deadline", zone: Optional[tzinfo] = None) -> Optional[datetime]:
    """Return the time that a text states, in `zone` if it states none; None for "". UsageError for any other text."""
    text = text.strip()
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text[:-1] + "+00:00" if text.endswith("Z") else text)
    except ValueError:
        raise UsageError(f"{name}: write it as 2026-12-05T23:59-06:00, not {text[:40]!r}") from None
    found = found.replace(tzinfo=found.tzinfo or zone)
    if found.tzinfo is None:
        raise UsageError(f"{name}: add the time zone, as in 2026-12-05T23:59-06:00")
    if not 1970 < found.year < 9998:
        raise UsageError(f"{name}: the year must be 1971 to 9997")
    return found


def _number(text: str, what: str) -> Optional[float]:
    text = text.strip()
    if not text:
        return None
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 < found <= _MOST:
        raise UsageError(f"{what} must be a number above 0, or empty for none")
    return found


def listed(text: str, most: int = _MOST_PEOPLE) -> List[ListedPerson]:
    """Return the person of each line of CSV text; a header may order name, role and team. UsageError if invalid."""
    try:
        lines = [[cell.strip() for cell in line] for line in csv.reader(io.StringIO(text)) if any(map(str.strip, line))]
    except csv.Error as error:
        raise UsageError(f"the list of people is not CSV: {error}") from None
    order = ["name", "role", "team"]
    if lines and "name" in [cell.lower() for cell in lines[0]]:
        order = [cell.lower() for cell in lines.pop(0)]
    elif any(len(line) > 3 for line in lines):
        raise UsageError("each line must be NAME, NAME,ROLE or NAME,ROLE,TEAM")
    if not lines:
        raise UsageError("the list of people is empty: write one person per line")
    if len(lines) > most:
        raise UsageError(f"the list has {len(lines):,} people: add at most {most:,} at a time")
    named = [dict(zip(order, line)) for line in lines]
    return [ListedPerson(one.get("name", ""), one.get("role"), one.get("team")) for one in named]
