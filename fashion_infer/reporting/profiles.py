"""The report's profile tables: nvprof's columns, and the names that together make up 90% of the time."""

from typing import List, NamedTuple, Optional, Sequence, Tuple

from ..pipeline import Result


class Line(NamedTuple):
    """One name's share; times in seconds."""

    percent: float
    time: float
    calls: int
    avg: float
    min: float
    max: float
    name: str


class Profile(NamedTuple):
    """Tables under their headings, lines sorted by time; where they come from; the command that makes them again."""

    tables: List[Tuple[str, List[Line]]]
    source: str
    command: Optional[str]


def ninety(lines: Sequence[Line]) -> List[str]:
    """The fewest names that together make up at least 90% of the time, the longest first."""
    names, total, sum_ = [], sum(line.time for line in lines), 0.0
    for line in sorted(lines, key=lambda line: -line.time):
        if sum_ >= 0.9 * total:
            break
        names.append(line.name)
        sum_ += line.time
    return names


def from_op_times(results: Sequence[Result]) -> Profile:
    """The tables from runs' own op times: every pass over a layer is a call."""
    tables = []
    for result in results:
        lines = []
        for layer in result.layers:
            times = layer.seconds
            name = f"{layer.name} ({layer.kernel or layer.operator})"
            lines.append(Line(0.0, sum(times), len(times), sum(times) / len(times), min(times), max(times), name))
        total = sum(line.time for line in lines) or 1.0
        lines = [line._replace(percent=100 * line.time / total) for line in lines]
        tables.append((f"Layers, {result.mode} mode", sorted(lines, key=lambda line: -line.time)))
    return Profile(tables, "the op times of the runs above, a call being one pass over all images", None)
