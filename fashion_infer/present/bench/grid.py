"""The output of `bench conv --grid`: a comparison of our kernels with each peer, and a line for every point."""

from typing import List

from ...bench.grid import MAX_BYTES, GridResult
from ...bench.records import OURS, WRONG, BenchCase
from ...bench.standings import BEHIND, WORST, standings
from ..content import Part, Section, Text, number, percent, table
from .columns import BenchText, Field
from .convolutions import one_row_a_case

_HOW = (
    "Every point is a convolution of random tensors: pixels if it has 1 or 3 channels, else values from -1 to 1. Ours "
    "is the kernel that auto runs. The contenders run alternately; times are medians of 3 to 20 runs, depending on the "
    "time for the point. A peer is timed with the layouts NCHW and NHWC, and the faster one counts; cuDNN first "
    "searches for its best algorithm. The largest batch is the one whose input and output are below {most:g} GB each. "
    "Before ours is timed, it is compared with float64 at {checked} random outputs. error is the largest difference "
    "divided by the largest magnitude of these outputs. of bound is the largest ratio of a difference to the error "
    "bound of a plain float32 sum, 2^-24 (4 + sqrt(n)) times the sum of magnitudes of its n products. x PEER says how "
    "many times faster than that peer ours is."
)
_SHAPE = [
    Field(f">{name}", lambda row, case, part=part: getattr(case.shape, part))  # type: ignore[misc]
    for name, part in (("C", "C"), ("M", "M"), ("K", "K"), ("side", "H"), ("images", "B"))
]


def point(case: BenchCase) -> Text:
    """Describe a point of the grid in one line for the terminal."""
    ours = next(row for row in case.rows if row.kind == OURS)
    milliseconds = f"{ours.median_ms:.4g} ms" if ours.timed else "not timed"
    peers = "".join(f", x {ratio:.2f} {peer}" for peer, ratio in ours.faster_than.items())
    assert case.shape is not None
    line = f"{case.shape.title}: {ours.name} {milliseconds}, write floor {case.fill_ms:.4g} ms{peers}"
    return Text(line + (f"; WRONG: {ours.reason}" if ours.status == WRONG else ""))


def _how(result: GridResult) -> List[str]:
    return [_HOW.format(most=MAX_BYTES / 1e9, checked=max((case.checked for case in result.cases), default=0))]


def _standing(result: GridResult) -> List[Part]:
    """Compare our kernels with each peer, and list the points at which they are slowest relative to the peer."""
    known = standings(result)
    names = ["against", ">points", ">at least as fast", f">below {BEHIND}", ">geometric mean", ">least"]
    rows = [
        [
            each.peer,
            len(each.ratios),
            percent(each.ahead),
            len(each.behind),
            number(each.geometric_mean, ".2f"),
            number(each.ratios[0].value, ".2f"),
        ]
        for each in known
    ]
    found: List[Part] = [table("How many times faster than its peers ours is", names, rows)]
    for each in known:
        worst = [(ratio.ours, ratio.case) for ratio in each.ratios[:WORST]]
        title = Field("point", lambda row, case: case.shape.title)  # type: ignore[union-attr]
        found.append(one_row_a_case(f"The {WORST} slowest points against {each.peer}", worst, [title]))
        if len(each.behind) > WORST:
            named = "; ".join(f"{ratio.case.shape.title} ({ratio.value:.2f})" for ratio in each.behind)  # type: ignore[union-attr]
            found.append(Text(f"Below {BEHIND} of {each.peer}: {named}."))
    return found


def _answer(result: GridResult) -> List[str]:
    return [f"{len(result.cases):,} of {result.asked:,} points measured, {len(result.wrong)} wrong"]


def _sections(result: GridResult) -> List[Section]:
    measured: List[Part] = [Text(text) for text in _answer(result)]
    sections = [Section("standing", "Comparison with the peers", [*measured, *_standing(result)])]
    for group in dict.fromkeys(case.edition for case in result.cases):
        title = group.partition(", ")[2].capitalize()
        cases = sorted((case for case in result.cases if case.edition == group), key=lambda case: case.number or 0)
        rows = [(row, case) for case in cases for row in case.rows if row.kind == OURS]
        sections.append(Section(title.lower().replace(" ", "-"), title, [one_row_a_case(title, rows, _SHAPE)]))
    return sections


TEXT = BenchText(
    title=lambda result: "The grid of convolutions, measured",
    chart="Heat maps, one for each peer and batch: how many times faster than the peer ours is at every shape",
    how=_how,
    sections=_sections,
    closing=_standing,
    answer=_answer,
)
