"""Cases, the calls that were made of them, and what their times come to."""

import statistics
from typing import List, NamedTuple, Optional, Sequence, Tuple

from ...checkpoints import editions
from ...graph.shapes import ConvolutionShape
from ..rubric import RubricLayer


class Case(NamedTuple):
    """A layer with a number of images."""

    layer: int  # from 1
    shape: ConvolutionShape

    @property
    def words(self) -> str:
        """For messages."""
        return f"layer {self.layer}, n = {self.shape.B}"


class Sample(NamedTuple):
    """One call. Times in seconds."""

    case: Case
    run: int  # a fresh process each
    call: int  # in its process
    timed: bool  # for the time checks, and not the first of its case
    seconds: float  # by the referee's clock: the whole call
    op_seconds: float  # Op Time
    worker_seconds: float  # by the worker's own clock: information
    precision: str  # one of `scrutiny.CLASSES`
    said: str  # the diagnosis, in one line


class Times(NamedTuple):
    """A layer's times, in milliseconds."""

    layer: int
    n: int
    op: float  # median
    spread: float  # between the quartiles (of fewer than four: between the ends), over the median
    layer_time: float  # median of the whole call
    worker: float  # median by the worker's own clock
    samples: Tuple[float, ...]  # Op Times


def cases(edition: str, counts: Sequence[int], layers: Sequence[RubricLayer] = ()) -> List[Case]:
    """Every layer of an edition, or of those that a rubric lists, with every number of images."""
    shapes = layers or [RubricLayer(*sizes) for sizes in editions.convolution_shapes(editions.get(edition))]
    found = [
        Case(number, ConvolutionShape(min(n, images or n), channels, size, size, filters, side))
        for number, (channels, size, filters, side, images) in enumerate(shapes, start=1)
        for n in counts
    ]
    return list(dict.fromkeys(found))


def spread(values: Sequence[float]) -> float:
    """Interquartile range over the median; of fewer than four values, their range over it.

    Infinity for a single value, and where the median is 0, as of a clock that stands still.
    """
    if len(values) < 2:
        return float("inf")
    if len(values) < 4:
        low, middle, high = min(values), statistics.median(values), max(values)
    else:
        low, middle, high = statistics.quantiles(values, n=4)
    return (high - low) / middle if middle else float("inf")


def times(samples: Sequence[Sample], case: Case) -> Optional[Times]:
    """Times of a case, from its timed calls; None without any."""
    timed = [sample for sample in samples if sample.case == case and sample.timed]
    if not timed:
        return None
    op = tuple(1e3 * sample.op_seconds for sample in timed)
    noise = spread(op)
    return Times(
        case.layer, case.shape.B, statistics.median(op), noise if noise != float("inf") else 0.0,
        1e3 * statistics.median(sample.seconds for sample in timed),
        1e3 * statistics.median(sample.worker_seconds for sample in timed), op,
    )  # fmt: skip
