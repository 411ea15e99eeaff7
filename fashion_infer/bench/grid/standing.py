"""How ours stands over the grid: against each peer, the share of points where it is ahead, and where it is not."""

import statistics
from typing import Any, Dict, List, NamedTuple, Optional

from ..records import OURS, PEER, Case, Result

BEHIND = 0.8  # of a peer's speed: a point below it is named
WORST = 10


class Ratio(NamedTuple):
    """A point's median time of a peer over ours: above 1 ours is faster."""

    case: Case
    ours_ms: float
    peer_ms: float

    @property
    def value(self) -> float:
        """The ratio."""
        return self.peer_ms / self.ours_ms

    def as_dict(self) -> Dict[str, Any]:
        """For JSON."""
        shape = self.case.shape._asdict()
        return {"shape": shape, "kernel": self.case.auto, "ratio": self.value, "ours_ms": self.ours_ms}


class Standing(NamedTuple):
    """Against one peer."""

    peer: str
    points: int  # that both ran
    ahead: float  # share of the points where ours is at least as fast
    geometric_mean: float  # of the ratios
    behind: List[Ratio]  # below BEHIND, the worst first
    worst: List[Ratio]  # the WORST least ratios

    def as_dict(self) -> Dict[str, Any]:
        """For JSON."""
        lists = {name: [each.as_dict() for each in getattr(self, name)] for name in ("behind", "worst")}
        return {**self._asdict(), **lists}


def ratios(result: Result, peer: str) -> List[Ratio]:
    """The points that ours and the peer ran."""
    found = []
    for case in result.cases:
        ours = _median(case, OURS)
        theirs = _median(case, PEER, peer)
        if ours is not None and theirs is not None:
            found.append(Ratio(case, ours, theirs))
    return found


def standings(result: Result) -> List[Standing]:
    """Against every peer that ran a point which ours ran, in the order in which they were measured."""
    names = dict.fromkeys(name for case in result.cases for name in case.peers)
    found = {peer: ratios(result, peer) for peer in names}
    return [_standing(peer, ratios) for peer, ratios in found.items() if ratios]


def _standing(peer: str, found: List[Ratio]) -> Standing:
    ordered = sorted(found, key=lambda ratio: ratio.value)
    values = [ratio.value for ratio in ordered]
    ahead = sum(value >= 1 for value in values) / len(values)
    behind = [ratio for ratio in ordered if ratio.value < BEHIND]
    return Standing(peer, len(values), ahead, statistics.geometric_mean(values), behind, ordered[:WORST])


def _median(case: Case, kind: str, name: Optional[str] = None) -> Optional[float]:
    rows = (row for row in case.rows if row.kind == kind and (name is None or row.name == name))
    return next((row.median_ms for row in rows if row.timed), None)
