"""Compares `auto` with each peer over the grid: how often `auto` is ahead, and at which points it is behind."""

import statistics
from typing import Any, Dict, List, NamedTuple

from .records import OURS, BenchCase, BenchResult, Measurement

BEHIND = 0.8  # fraction of a peer's speed below which points are reported
WORST = 10  # a report lists this number of points, those with the smallest ratios


class PeerRatio(NamedTuple):
    """A peer's median time divided by ours at one point. Above 1, ours is faster."""

    case: BenchCase
    ours: Measurement
    value: float

    def as_dict(self) -> Dict[str, Any]:
        assert self.case.shape is not None
        shape = self.case.shape._asdict()
        return {"shape": shape, "kernel": self.case.auto, "ratio": self.value, "ours_ms": self.ours.median_ms}


class PeerStanding(NamedTuple):
    """Comparison of `auto` with one peer: the ratios at all points that both ran, smallest first."""

    peer: str
    ratios: List[PeerRatio]

    @property
    def ahead(self) -> float:
        """Fraction of the points where `auto` is at least as fast as the peer."""
        return sum(ratio.value >= 1 for ratio in self.ratios) / len(self.ratios)

    @property
    def geometric_mean(self) -> float:
        return statistics.geometric_mean([ratio.value for ratio in self.ratios])

    @property
    def behind(self) -> List[PeerRatio]:
        """The ratios below `BEHIND`."""
        return [ratio for ratio in self.ratios if ratio.value < BEHIND]

    def as_dict(self) -> Dict[str, Any]:
        return {
            "peer": self.peer,
            "points": len(self.ratios),
            "ahead": self.ahead,
            "geometric_mean": self.geometric_mean,
            "behind": [ratio.as_dict() for ratio in self.behind],
            "worst": [ratio.as_dict() for ratio in self.ratios[:WORST]],
        }


def standings(result: BenchResult) -> List[PeerStanding]:
    """Compare `auto` with every peer that was timed at a point where `auto` was timed too."""
    found: Dict[str, List[PeerRatio]] = {}
    for case in result.cases:
        ours = next((row for row in case.rows if row.kind == OURS), None)
        for peer, ratio in ours.faster_than.items() if ours else ():
            found.setdefault(peer, []).append(PeerRatio(case, ours, ratio))  # type: ignore[arg-type]
    return [PeerStanding(peer, sorted(ratios, key=lambda ratio: ratio.value)) for peer, ratios in found.items()]
