"""Converts the log of the fused mode's stages to records.

The log has each stage's time per pass, but not its start: on the timeline, stages follow one another from the start of
the pass in MXNet's profile.
"""

from typing import Iterable, List, Sequence, Tuple

from ...library.op_times import OpTime
from ..records import STAGE, Record

NETWORK = "_fashion_infer_network"  # the subgraph operator's registered name
_LANE = "stages, summed over the slices and laid end to end"


def stage_records(log: Sequence[Tuple[str, OpTime]], passes: Sequence[Record]) -> List[Record]:
    """Return STAGE records of forward passes, from the library's log (oldest first) and MXNet's subgraph records.

    Besides the stages, there are "[upload]", "[download]", and "[between the stages]" for the rest of a pass.
    """
    laid = []
    for each, node in zip(_split(log), sorted(passes, key=lambda r: r.start)):
        at = node.start
        for layer, op in each:
            for name, seconds in (("[upload]", op.upload), (layer, op.seconds), ("[download]", op.download)):
                length = round(1e9 * seconds)
                if length or name == layer:
                    laid.append(Record(STAGE, name, at, length, _LANE))
                at += length
        if node.end > at:
            laid.append(Record(STAGE, "[between the stages]", at, node.end - at, _LANE))
    return laid


def _split(log: Iterable[Tuple[str, OpTime]]) -> List[List[Tuple[str, OpTime]]]:
    """Split the log into passes: a new pass begins when a stage's name repeats."""
    passes: List[List[Tuple[str, OpTime]]] = []
    for layer, op in log:
        if not passes or any(layer == other for other, _ in passes[-1]):
            passes.append([])
        passes[-1].append((layer, op))
    return passes
