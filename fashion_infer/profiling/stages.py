"""The fused mode's stages as records.

The library's log has a stage's time, summed over the slices of one forward pass, and not when it began: on the timeline
the stages of a pass lie end to end, from where MXNet's profiler saw the pass begin.
"""

from typing import Iterable, List, Sequence

from ..library.operators import OpTime
from .records import STAGE, Record

NET = "_fashion_infer_net"
_LANE = "stages, summed over the slices and laid end to end"


def lay(log: Sequence[OpTime], passes: Sequence[Record]) -> List[Record]:
    """Stage records of some forward passes.

    Parameters
    ----------
    log
        The library's records, oldest first.
    passes
        MXNet's records of the subgraph operator.

    Returns
    -------
    list of Record
        Of kind STAGE: one a stage and pass, "[upload]" and "[download]" where there were transfers, and
        "[between the stages]" for what a pass took beyond them.
    """
    made = []
    for each, node in zip(_split(log), sorted(passes, key=lambda r: r.start)):
        at = node.start
        for op in each:
            for name, seconds in (("[upload]", op.upload), (op.layer, op.seconds), ("[download]", op.download)):
                length = round(1e9 * seconds)
                if length or name == op.layer:
                    made.append(Record(STAGE, name, at, length, _LANE))
                at += length
        if node.end > at:
            made.append(Record(STAGE, "[between the stages]", at, node.end - at, _LANE))
    return made


def _split(log: Iterable[OpTime]) -> List[List[OpTime]]:
    """The log pass by pass: one begins where a stage's name comes again."""
    passes: List[List[OpTime]] = []
    for op in log:
        if not passes or any(op.layer == other.layer for other in passes[-1]):
            passes.append([])
        passes[-1].append(op)
    return passes
