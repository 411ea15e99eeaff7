"""`bench conv --grid`: checks `auto` on a grid of shapes, and times it and peers within a time budget per shape."""

import random
from dataclasses import dataclass
from itertools import product
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple, Union

import numpy as np

from ..errors import UsageError
from ..judging import judge
from ..library import kernels as library
from . import checking, peers, request, standings
from .layers import IMAGE_CHANNELS
from .protocol import Benchmark, Trial
from .records import (
    CONVOLUTIONS,
    DEVICE,
    FILL,
    LIMIT,
    MEMORY,
    OURS,
    WRONG,
    BenchCase,
    BenchResult,
    ConvolutionShape,
    Measurement,
)
from .timing import Contender

CHANNELS = (1, 3, 4, 16, 32, 64, 128)
FILTERS = (4, 16, 32, 64, 128)
KERNEL_SIDES = (1, 3, 5, 7)
IMAGE_SIDES = (14, 28, 56, 112)
LARGEST = "largest"  # the largest batch whose input and output have at most MAX_BYTES each
MAX_BYTES = 2 * 10**9
# Default batch sizes. On a CPU, one point with the largest batch takes minutes.
BATCHES = {"gpu": (1, 100, LARGEST), "cpu": (1, 100)}
SAMPLE = 300  # number of points that are measured without --full
_IMAGES = 6  # images whose outputs are checked, beside the first and the last
_MIN_RUNS, _MAX_RUNS = 3, 20

Batch = Union[int, str]


class GridPoint(NamedTuple):
    number: int
    batch: Batch  # of the combination without the batch size, from 1
    shape: ConvolutionShape

    @property
    def group(self) -> str:
        """Batch size in words: "1 image", "100 images", "largest batch"."""
        batch = self.batch
        return "largest batch" if batch == LARGEST else f"{batch:,} image{'s' if batch != 1 else ''}"


def parse_batches(words: Sequence[str]) -> Tuple[Batch, ...]:
    """Parse batch sizes, given as words; UsageError for a word that is neither a number nor "largest"."""
    found: List[Batch] = []
    for word in (part.strip() for each in words for part in each.split(",")):
        if word != LARGEST and not (word.isdecimal() and int(word) > 0):
            raise UsageError(f"--batches takes whole numbers and '{LARGEST}' with commas between them, not '{word}'")
        found.append(word if word == LARGEST else int(word))
    return tuple(dict.fromkeys(found))


def all_points(batches: Sequence[Batch]) -> List[GridPoint]:
    """Return all points of the grid, batch by batch."""
    return [
        GridPoint(number, batch, _shape(batch, *sizes))
        for batch in batches
        for number, sizes in enumerate(product(CHANNELS, FILTERS, KERNEL_SIDES, IMAGE_SIDES), 1)
    ]


def shuffled_points(batches: Sequence[Batch], full: bool, seed: int) -> List[GridPoint]:
    """Return all points, or SAMPLE of them, in a random order, so that a run that stops early has measured a sample."""
    points = all_points(batches)
    random.Random(seed).shuffle(points)
    return points if full else points[:SAMPLE]


def _shape(batch: Batch, channels: int, filters: int, kernel_side: int, side: int) -> ConvolutionShape:
    one = ConvolutionShape(1, channels, side, side, filters, kernel_side)
    if batch == LARGEST:
        batch = MAX_BYTES // (4 * max(channels * side * side, one.outputs))
    return one._replace(B=int(batch))


@dataclass
class GridResult(BenchResult):
    seed: int = 1
    full: bool = False
    asked: int = 0  # number of requested points; `cases` has fewer if the time ran out

    def as_dict(self) -> Dict[str, Any]:
        return {**super().as_dict(), "standings": [each.as_dict() for each in standings.standings(self)]}


class Grid(Benchmark):
    name = CONVOLUTIONS
    peers = peers.CONVOLUTION
    result_type = GridResult

    def cases(self) -> List[BenchCase]:
        batches = self.request.batches or BATCHES[self.machine.backend]
        points = shuffled_points(batches, self.request.full, self.request.seed)
        self.machine.check_drawn(max((point.shape for point in points), key=lambda shape: shape.bytes))
        where = MEMORY if self.machine.backend == "cpu" else DEVICE
        return [
            BenchCase(f"grid, {point.group}", where, point.shape.B, 0, [], point.number, point.shape)
            for point in points
        ]

    def usual_peers(self) -> str:
        return ",".join(peer.name for peer in self.peers if peer.in_grid)

    def options(self) -> Dict[str, Any]:
        asked = self.request
        return {
            "batches": request.joined(asked.batches),
            "seed": asked.seed,
            "against": asked.against,
            "seconds": asked.seconds,
            "grid": True,
            "full": asked.full,
        }

    def _empty(self, cases: List[BenchCase], peers: List[str]) -> BenchResult:
        result: Any = super()._empty(cases, peers)
        result.seed, result.full, result.asked = self.request.seed, self.request.full, len(cases)
        return result

    def prepare(self, case: BenchCase, index: int) -> Trial:
        """Check all outputs of `auto` for some images against the float32 error bound."""
        shape, seed = case.shape, self.request.seed + index + 1
        assert shape is not None
        self.machine.release()
        work = self.machine.drawn(shape, shape.C in IMAGE_CHANNELS, seed)
        case.auto = library.chosen_kernel(shape[:4], (shape.M, shape.C, shape.K, shape.K), self.machine.backend)
        fills = [(limit, moved) for limit, moved in work.limits() if limit.name == FILL]
        ours = Measurement(case.auto, OURS, precision="float32")  # `auto` chooses only float32 kernels
        case.rows = [Measurement(FILL, LIMIT), ours]
        contender = self._checked(work, case, ours, seed)
        for fill, _ in fills:
            fill.run()
        timed = [*(fill for fill, _ in fills), *([contender] if contender else [])]
        return Trial(work, timed, {fill.name: moved for fill, moved in fills})

    def repeat(self, case: BenchCase, trial: Trial) -> int:
        """Return the number of runs that fit into a point's time budget."""
        once = sum((contender.clock or trial.work.clock).time(contender.run, 1)[0] for contender in trial.timed)
        return int(min(_MAX_RUNS, max(_MIN_RUNS, self.machine.point_seconds / once)))

    def handle_unrunnable(self, contender: Contender, error: RuntimeError) -> None:
        """Leave out a peer's variant that has no algorithm, or not enough memory, for a shape."""

    def _checked(self, work, case: BenchCase, row: Measurement, seed: int):
        """Return our kernel, or None if it fails or leaves output unwritten; record errors in `row`."""
        assert case.shape is not None
        picked = np.random.default_rng(seed).integers(0, case.batch, _IMAGES)
        images = np.unique(np.r_[0, case.batch - 1, picked])
        contender = work.kernel(case.auto)
        ran = checking.first_run(work, contender, row)
        if ran is None:
            return None
        x, weight = work.inputs(images)
        found = judge.outputs(row.name, contender.sample(ran.output, images), x, weight, "float32")
        assert found.comparison is not None
        row.error = found.comparison.largest / (found.comparison.scale or 1.0)
        row.of_bound, case.checked = found.comparison.of_bound, found.comparison.total
        if ran.complete and not found.right:
            row.status, row.reason = WRONG, f"an error of {row.of_bound:.2g} times the float32 bound"
        # A kernel whose error exceeds the bound is still timed. `BenchResult.wrong` reports it.
        return contender if ran.complete else None
