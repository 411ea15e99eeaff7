"""Writes a timeline in the Chrome trace format, for Perfetto (ui.perfetto.dev) and chrome://tracing."""

import json
from typing import Any, Dict, List, Sequence

from .records import API, COPY, DEVICE_KINDS, KERNEL, NODE, SET, STAGE, Record

# Groups of lanes. From top to bottom, a viewer shows the network, the host's calls and the device's work.
_GROUPS = {STAGE: "stages", NODE: "MXNet", API: "host calls", KERNEL: "GPU", COPY: "GPU", SET: "GPU"}
_ORDER = ("stages", "MXNet", "host calls", "GPU")


def events(records: Sequence[Record]) -> List[Dict[str, Any]]:
    """Return a trace's events in microseconds from the first record: a process per group, a thread per lane."""
    origin = min((record.start for record in records), default=0)
    groups = [name for name in _ORDER if any(_GROUPS[r.kind] == name for r in records)]
    lanes: Dict[tuple, int] = {}
    found = []
    for index, name in enumerate(groups, 1):
        found.append(_name_event("process", index, 0, name))
        found.append({"ph": "M", "name": "process_sort_index", "pid": index, "tid": 0, "args": {"sort_index": index}})
    for record in sorted(records, key=lambda r: (r.start, -r.duration)):
        group = groups.index(_GROUPS[record.kind]) + 1
        lane = (group, record.lane)
        if lane not in lanes:
            lanes[lane] = 1 + sum(known == group for known, _ in lanes)
            found.append(_name_event("thread", group, lanes[lane], record.lane))
        start, end = _microseconds(record.start - origin), _microseconds(record.end - origin)
        event: Dict[str, Any] = {"name": record.name, "cat": record.kind, "pid": group, "tid": lanes[lane], "ts": start}
        if end > start:
            event.update(ph="X", dur=end - start)
        else:
            event.update(ph="i", s="t")  # an instant event, because some viewers fail on slices without length
        if record.bytes:
            event["args"] = {"bytes": record.bytes}
            if record.duration and record.kind in DEVICE_KINDS:
                event["args"]["GB/s"] = round(record.bytes / record.duration, 3)
        found.append(event)
    return found


def _microseconds(nanoseconds: int) -> float:
    """Convert to microseconds, rounded down to 1024ths, which float64 adds and subtracts exactly.

    Rounding to thousandths could let a slice end after the next one starts, and viewers then nest the two.
    """
    return nanoseconds * 1024 // 1000 / 1024


def _name_event(what: str, process: int, thread: int, name: str) -> Dict[str, Any]:
    """Return an event that names a process or a thread; `what` is "process" or "thread"."""
    return {"ph": "M", "name": f"{what}_name", "pid": process, "tid": thread, "args": {"name": name}}


def write(path: str, records: Sequence[Record]) -> None:
    """Write the timeline of records to a file."""
    with open(path, "w") as stream:
        json.dump({"traceEvents": events(records), "displayTimeUnit": "ms"}, stream)
