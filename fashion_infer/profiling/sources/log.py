"""The fused mode's stages as records.

The library's log has a stage's time, summed over the slices of one forward pass, and not when it began: on the timeline
the stages of a pass lie end to end, from where MXNet's profiler saw the pass begin.
"""

from typing import Iterable, List, Sequence, Tuple

from ...library.op_times import OpTime
from ..records import STAGE, Record

NETWORK = "_fashion_infer_network"  # the subgraph operator, as the library registers it
_LANE = "stages, summed over the slices and laid end to end"


def lay(log: Sequence[Tuple[str, OpTime]], passes: Sequence[Record]) -> List[Record]:
    """Stage records of some forward passes.

    Parameters
    ----------
    log
        The library's records, oldest first, each with the name of its layer.
    passes
        MXNet's records of the subgraph operator.

    Returns
    -------
    list of Record
        Of kind STAGE: one a stage and pass, "[upload]" and "[download]" where there were transfers, and
        "[between the stages]" for what a pass took beyond them.
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
    """The log pass by pass: one begins where a stage's name comes again."""
    passes: List[List[Tuple[str, OpTime]]] = []
    for layer, op in log:
        if not passes or any(layer == other for other, _ in passes[-1]):
            passes.append([])
        passes[-1].append((layer, op))
    return passes
