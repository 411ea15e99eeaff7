"""Cases of a rubric, samples of their calls, and statistics of the samples' times."""

import statistics
from typing import List, NamedTuple, Optional, Sequence, Tuple

from ...checkpoints import editions
from ...graph.layers import ConvolutionShape
from ...system import noise
from ..rubric import RubricLayer


class Case(NamedTuple):
    layer: int  # from 1
    shape: ConvolutionShape

    @property
    def words(self) -> str:
        return f"layer {self.layer}, n = {self.shape.B}"


class Sample(NamedTuple):
    """Result of a call, or of the calls of a bracket, whose times are means. Times are in seconds."""

    case: Case
    run: int  # number of the process that made the call
    call: int  # number of the bracket of its case in that process
    timed: bool  # whether it counts for the time checks: a call of a timed run that is not the first of its case
    seconds: float  # time of the whole call by the referee's clock
    op_seconds: float  # Op Time
    worker_seconds: float  # time by the worker's own clock, for information only
    precision: str  # one of `judging.bound.CLASSES`


class Times(NamedTuple):
    layer: int
    n: int
    op: float  # ms, like all times here: the median
    spread: Optional[float]  # see `system.noise`; None for a single call
    layer_time: float  # median of the whole call
    worker: float  # median of the times by the worker's own clock
    samples: Tuple[float, ...]  # Op Times of the timed calls

    @property
    def doubt(self) -> float:
        """The factor by which a repeat could well be slower: 1 if the times are steady."""
        return 1.0 if noise.steady(self.samples) or not self.op else noise.slow_end(self.samples) / self.op


def cases(edition: str, counts: Sequence[int], layers: Sequence[RubricLayer] = ()) -> List[Case]:
    shapes = layers or [RubricLayer(*sizes) for sizes in editions.convolution_shapes(editions.get(edition))]
    found = [
        Case(number, ConvolutionShape(min(n, images or n), channels, size, size, filters, side))
        for number, (channels, size, filters, side, images) in enumerate(shapes, start=1)
        for n in counts
    ]
    return list(dict.fromkeys(found))


def times(samples: Sequence[Sample], case: Case) -> Optional[Times]:
    timed = [sample for sample in samples if sample.case == case and sample.timed]
    if not timed:
        return None
    op = tuple(1e3 * sample.op_seconds for sample in timed)
    return Times(
        case.layer,
        case.shape.B,
        statistics.median(op),
        noise.spread(op),
        1e3 * statistics.median(sample.seconds for sample in timed),
        1e3 * statistics.median(sample.worker_seconds for sample in timed),
        op,
    )
