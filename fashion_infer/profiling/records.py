"""Records of activities: sources create them, tables and timelines show them."""

from typing import Any, Dict, List, NamedTuple, Sequence

KERNEL, COPY, SET = "kernel", "copy", "set"  # on a GPU
API = "api"  # a call into CUDA, or into MXNet's C API on the CPU
NODE = "node"  # a node of MXNet's graph, or work of its engine
STAGE = "stage"  # a stage of the fused mode
DEVICE_KINDS = (KERNEL, COPY, SET)


class Record(NamedTuple):
    """An activity. Its duration is in nanoseconds; its start is in nanoseconds since 1970 (Unix time)."""

    kind: str
    name: str
    start: int
    duration: int
    lane: str  # place of the activity: "device 0, stream 7", or a thread
    bytes: int = 0  # number of bytes that were moved; 0 if unknown

    @property
    def end(self) -> int:
        return self.start + self.duration


def of(records: Sequence[Record], *kinds: str) -> List[Record]:
    """Return the records of some kinds, in the order of their start."""
    return sorted((r for r in records if r.kind in kinds), key=lambda r: (r.start, -r.duration))


def outermost(records: Sequence[Record]) -> List[Record]:
    """Drop records nested in another of their lane (a driver call in a runtime call): their time would count twice."""
    kept: List[Record] = []
    ends: Dict[Any, int] = {}
    for record in sorted(records, key=lambda r: (r.start, -r.duration)):
        if record.end > ends.get(record.lane, -1):
            kept.append(record)
            ends[record.lane] = record.end
    return kept
