"""Files of a profile, each written completely or not at all."""

import json
from pathlib import Path
from typing import Optional, Sequence

from ..errors import DataError
from ..system.files import replacing
from . import counters, tables, trace
from .session import ProfiledRun


def save(
    profile: ProfiledRun,
    counted: Sequence[counters.KernelCounters],
    command: str,
    as_csv: Optional[str],
    as_json: Optional[str],
    timeline: Optional[str],
) -> None:
    """Write each file whose path is not empty or None; raise DataError if a file cannot be written."""
    if as_csv:
        with replacing(as_csv, DataError) as temporary:
            tables.write_csv(temporary, profile.figures.tables)
    if as_json:
        names = [counter.what for counter in counters.COUNTERS]
        listed = [{"name": k.name, "launches": k.launches, **dict(zip(names, k.values))} for k in counted]
        content = {"command": command, **profile.as_dict(), "counters": listed}
        with replacing(as_json, DataError) as temporary:
            Path(temporary).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    if timeline:
        with replacing(timeline, DataError) as temporary:
            trace.write(temporary, profile.records)
