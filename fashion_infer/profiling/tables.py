"""Tables of records in nvprof's form, and a timeline in the Chrome trace format.

Perfetto (ui.perfetto.dev) and chrome://tracing show the timeline.
"""

import csv
import json
from typing import Any, Dict, List, NamedTuple, Sequence

from .records import API, COPY, DEVICE_KINDS, KERNEL, NODE, SET, STAGE, Record

# Groups of lanes. From top to bottom, a viewer shows the network, the host's calls and the device's work.
_GROUPS = {STAGE: "stages", NODE: "MXNet", API: "host calls", KERNEL: "GPU", COPY: "GPU", SET: "GPU"}
_ORDER = ("stages", "MXNet", "host calls", "GPU")


class Row(NamedTuple):
    """A row for all records with one name. Times are in nanoseconds."""

    name: str
    share: float  # fraction of the table's time, 0 to 1
    time: int
    calls: int
    min: int
    max: int

    @property
    def avg(self) -> float:
        return self.time / self.calls


class ProfileTable(NamedTuple):
    """A table in nvprof's form: rows under one heading, sorted by time, longest first."""

    title: str
    rows: List[Row]

    @property
    def time(self) -> int:
        return sum(row.time for row in self.rows)


def tabulate(title: str, records: Sequence[Record]) -> ProfileTable:
    """Make a table with a row for each name of records. Rows of equal time are in the order of their names."""
    durations: Dict[str, List[int]] = {}
    for record in records:
        durations.setdefault(record.name, []).append(record.duration)
    total = sum(map(sum, durations.values())) or 1
    rows = [Row(name, sum(d) / total, sum(d), len(d), min(d), max(d)) for name, d in durations.items()]
    return ProfileTable(title, sorted(rows, key=lambda row: (-row.time, row.name)))


def majority(table: ProfileTable) -> List[Row]:
    """Return the fewest rows that together take at least 90% of the table's time, longest first."""
    needed, reached, found = 0.9 * table.time, 0, []
    for row in table.rows:
        if reached >= needed:
            break
        reached += row.time
        found.append(row)
    return found


def kernels(table: ProfileTable) -> ProfileTable:
    """Return a table of GPU activities without copies and memsets, with shares of the kernels' time."""
    rows = [row for row in table.rows if not row.name.startswith("[CUDA ")]
    total = sum(row.time for row in rows) or 1
    return ProfileTable("kernels alone", [row._replace(share=row.time / total) for row in rows])


def duration(nanoseconds: float) -> str:
    """Format a time as nvprof does, with five digits: 640ns, 2.9120us, 22.403ms, 1.1093s."""
    for limit, unit in ((1e3, "ns"), (1e6, "us"), (1e9, "ms")):
        if nanoseconds < limit:
            value = nanoseconds / (limit / 1e3)
            return f"{value:.0f}ns" if unit == "ns" else f"{_digits(value)}{unit}"
    return f"{_digits(nanoseconds / 1e9)}s"


def _digits(value: float) -> str:
    before = len(str(int(value)))
    return f"{value:.{max(0, 5 - before)}f}"


def write_csv(path: str, tables: Sequence[ProfileTable]) -> None:
    """Write all tables to one file, in the layout of `nvprof --csv`. Times are in seconds."""
    with open(path, "w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["Type", "Time(%)", "Time(s)", "Calls", "Avg(s)", "Min(s)", "Max(s)", "Name"])
        for table in tables:
            for row in table.rows:
                times = [f"{ns / 1e9:.9f}" for ns in (row.avg, row.min, row.max)]
                writer.writerow(
                    [table.title, f"{100 * row.share:.4f}", f"{row.time / 1e9:.9f}", row.calls, *times, row.name]
                )


def as_dict(table: ProfileTable) -> Dict:
    """Return a dictionary for JSON, in nanoseconds. "majority" names the rows that make up 90% of the time."""
    return {
        "title": table.title,
        "time": table.time,
        "rows": [{**row._asdict(), "avg": row.avg} for row in table.rows],
        "majority": [row.name for row in majority(table)],
    }


def timeline(records: Sequence[Record]) -> List[Dict[str, Any]]:
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
    return {"ph": "M", "name": f"{what}_name", "pid": process, "tid": thread, "args": {"name": name}}


def write_timeline(path: str, records: Sequence[Record]) -> None:
    with open(path, "w") as stream:
        json.dump({"traceEvents": timeline(records), "displayTimeUnit": "ms"}, stream)
