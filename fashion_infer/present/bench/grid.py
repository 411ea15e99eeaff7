"""The benchmark of the grid: how ours stands against each peer, and every point."""

from typing import List, Optional

from ...bench.grid.measuring import GridResult
from ...bench.grid.points import MOST_BYTES
from ...bench.grid.standing import BEHIND, WORST, Ratio, standings
from ...bench.records import FILL, OURS, WRONG, Case
from ..content import Page, Part, Section, Text, number, percent, table
from .common import head

_HOW = (
    "Every point is a convolution of random tensors: pixels where it has 1 or 3 channels, else values of -1 to 1. Ours "
    "is what auto runs. All contenders take turns; times are medians of 3 to 20 runs, as many as a share of time for "
    "the point allows. Of a peer's ways (layouts NCHW and NHWC) the fastest counts; cuDNN searches for its best "
    "algorithm first. The largest batch is the one whose input and output are below {most:g} GB each. Before it is "
    "timed, ours is compared with float64 at {checked} random outputs: error is the largest difference over the "
    "largest of these outputs, of bound the largest over what a plain float32 sum may be wrong by, 2^-24 (4 + sqrt(n)) "
    "times the sum of magnitudes of its n products. x PEER says how many times faster than that peer ours is."
)


def progress(case: Case, place: int, total: int) -> List[Part]:
    """One point, in a line for the terminal."""
    ours, fill = _row(case, OURS), _row(case, FILL)
    milliseconds = f"{ours.median_ms:.4g} ms" if ours.timed else "not timed"
    peers = "".join(f", x {ratio:.2f} {peer}" for peer, ratio in ours.faster_than.items())
    line = f"{place}/{total}: {case.shape.title}: {ours.name} {milliseconds}, fill {fill.median_ms:.4g} ms{peers}"
    return [Text(line + (f"; WRONG: {ours.reason}" if ours.status == WRONG else ""))]


def summary(result: GridResult) -> List[Part]:
    """How ours stands against each peer."""
    known = standings(result)
    columns = ["against", ">points", ">at least as fast", f">below {BEHIND}", ">geometric mean", ">least"]
    rows = [
        [each.peer, each.points, percent(each.ahead), len(each.behind), number(each.geometric_mean, ".2f"),
         number(each.worst[0].value, ".2f")]
        for each in known
    ]  # fmt: skip
    measured = f"{len(result.cases):,} of {result.asked:,} points measured, {len(result.wrong)} wrong"
    found: List[Part] = [table(f"How many times faster than its peers ours is: {measured}", columns, rows)]
    for each in known:
        found.append(_points(f"The {WORST} points that stand worst against {each.peer}", each.worst))
        if len(each.behind) > WORST:
            named = "; ".join(f"{ratio.case.shape.title} ({ratio.value:.2f})" for ratio in each.behind)
            found.append(Text(f"Below {BEHIND} of {each.peer}: {named}."))
    return found


def page(result: GridResult, file: str, plot: Optional[str] = None, as_json: Optional[str] = None) -> Page:
    """The page of documentation; see `common.head`."""
    alt = "Heat maps, one for each peer and batch: how many times faster than the peer ours is at every shape"
    top = head(result, file, plot, as_json, how(result), alt)
    sections = [Section("standing", "How ours stands", summary(result))]
    for group in dict.fromkeys(case.edition for case in result.cases):
        title = group.partition(", ")[2].capitalize()
        cases = sorted((case for case in result.cases if case.edition == group), key=lambda case: case.number)
        sections.append(Section(title.lower().replace(" ", "-"), title, [_table(title, cases, result)]))
    return Page("The grid of convolutions, measured", top, sections)


def how(result: GridResult) -> List[Part]:
    """How it was measured, and what the columns mean."""
    checked = max((case.checked for case in result.cases), default=0)
    return [Text(_HOW.format(most=MOST_BYTES / 1e9, checked=checked))]


def _points(caption: str, ratios: List[Ratio]):
    rows = [
        [ratio.case.shape.title, ratio.case.auto, number(ratio.ours_ms, ".4g"), number(ratio.peer_ms, ".4g"),
         number(ratio.value, ".2f")]
        for ratio in ratios
    ]  # fmt: skip
    return table(caption, ["point", "kernel", ">ours ms", ">peer ms", ">x"], rows)


def _table(caption: str, cases: List[Case], result: GridResult):
    peers = [each.peer for each in standings(result)]
    columns = [">C", ">M", ">K", ">side", ">images", "kernel", ">ms", ">fill ms", *(f">x {peer}" for peer in peers),
               ">error", ">of bound"]  # fmt: skip
    rows = []
    for case in cases:
        shape, ours = case.shape, _row(case, OURS)
        against = [number(ours.faster_than.get(peer), ".2f") for peer in peers]
        rows.append(
            [shape.C, shape.M, shape.K, shape.H, shape.B, f"{ours.name}{' (WRONG)' if ours.status == WRONG else ''}",
             number(ours.median_ms, ".4g"), number(_row(case, FILL).median_ms, ".4g"), *against,
             number(ours.error, ".1e"), number(ours.of_bound, ".2f")]
        )  # fmt: skip
    return table(caption, columns, rows)


def _row(case: Case, which: str):
    return next(row for row in case.rows if which in (row.kind, row.name))
