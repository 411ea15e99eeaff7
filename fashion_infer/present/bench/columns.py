"""What the texts of all benchmarks share: the columns of the tables of measurements, and the type of a text.

To add a column, add a `Field`.
"""

from typing import Any, Callable, List, NamedTuple, Optional, Tuple

from ...bench.conclusions import fastest_peer
from ...bench.records import LIMIT, MEMORY, OURS, PEER, SKIPPED, WRONG, BenchCase, Measurement
from ...system import noise
from .. import kernel
from ..content import Part, Section, Table, Text, column, number, percent, table

_ORDER = {LIMIT: 0, OURS: 1, PEER: 1}
PEERS = (
    "spread is the interquartile range of the times (of fewer than four, the range), divided by the median. A column "
    "x PEER says how many times faster than that peer a row is, by their medians."
)


class BenchText(NamedTuple):
    """The parts of a page that differ from benchmark to benchmark. Each function takes the benchmark's result."""

    title: Callable[[Any], str]
    chart: str  # title of the chart
    how: Callable[[Any], List[str]]  # explanation of the measurement and of the columns
    sections: Callable[[Any], List[Section]]
    closing: Callable[[Any], List[Part]]  # tables and texts after the last case on a terminal
    answer: Callable[[Any], List[str]]  # sentences at the end of the output on a terminal


class Field(NamedTuple):
    """A column of a table of measurements. A column whose cells are all empty is left out."""

    name: str  # see `content.column`
    cell: Callable[[Measurement, BenchCase], Any]  # returns a cell for `content.table`; None for an empty cell
    detail: bool = False  # whether the column is left out on a terminal


def name(row: Measurement, case: BenchCase) -> str:
    """Return a contender's name for a table: a kernel file is marked (yours), and the kernel that auto runs (auto)."""
    if row.kind == LIMIT:
        return "write floor: fill" if row.name == "fill" else f"limit: {row.name}"
    if row.file:
        return f"{kernel.marked(row.name, row.findings)} (yours)"
    return f"{row.name} (auto)" if row.name == case.auto else row.title


def _ms(row: Measurement, case: BenchCase) -> Any:
    return "WRONG" if row.status == WRONG else number(row.median_ms, ".4g" if case.shape is None else ".3f")


def _rate(scale: float, on_a_cpu: bool) -> Callable[[Measurement, BenchCase], Any]:
    def cell(row: Measurement, case: BenchCase) -> Any:
        return number(scale * row.tflop_s, ".1f") if row.tflop_s and (case.where == MEMORY) == on_a_cpu else None

    return cell


def _of_convolutions(name: str, form: str) -> Callable[[Measurement, BenchCase], Any]:
    return lambda row, case: None if case.shape is None else number(getattr(row, name), form)


def _images(row: Measurement, case: BenchCase) -> Any:
    return number(row.images_s, ",.0f") if case.shape is None else None


def _class(row: Measurement, case: BenchCase) -> Optional[str]:
    """Return the precision class of a kernel, in a case with a kernel file whose kernels have several classes."""
    ours = [each for each in case.rows if each.kind == OURS]
    shown = any(each.file for each in ours) and len({each.precision for each in ours}) > 1
    return row.precision if row.kind == OURS and shown else None


def note(row: Measurement, case: BenchCase) -> Optional[str]:
    return {WRONG: "(WRONG)", SKIPPED: "(does not take this layer)"}.get(row.status)


def idea(row: Measurement) -> str:
    return row.summary or ("peer" if row.kind == PEER else "")


FIELDS: Tuple[Field, ...] = (
    Field(">step", lambda row, case: row.step, detail=True),
    Field(">error", lambda row, case: number(row.error, ".1e")),  # left of the times: correctness comes before speed
    Field(">changed", lambda row, case: row.changed),
    Field("*>median ms", _ms),
    Field(">spread", lambda row, case: percent(row.spread, 0)),
    Field(">min ms", _of_convolutions("min_ms", ".3f")),
    Field(">min ms", lambda row, case: number(row.min_ms, ".4g") if case.shape is None else None, detail=True),
    Field(">p99 ms", lambda row, case: number(row.p99_ms, ".4g")),
    Field(">images/s", _images),
    Field(">GB/s", _of_convolutions("gb_s", ".1f"), detail=True),
    Field(">TFLOP/s", _rate(1.0, on_a_cpu=False)),
    Field(">GFLOP/s", _rate(1e3, on_a_cpu=True)),
    Field("*>% of floor", lambda row, case: number(row.percent_of_limit, ".1f")),
)
LAST_FIELDS: Tuple[Field, ...] = (
    Field("class", _class),
    Field(">layer ms", lambda row, case: number(row.layer_ms, ".3f"), detail=True),
    Field("note", note, detail=True),
)
IDEA = Field("idea", lambda row, case: " ".join(filter(None, (idea(row), note(row, case)))), detail=True)


def ratios(peers: List[str], shown: Optional[str]) -> List[Field]:
    """Return a column for each peer: how many times faster a row is. A terminal shows only that of the peer `shown`."""

    def ratio(peer: str) -> Field:
        return Field(f">x {peer}", lambda row, case: number(row.faster_than.get(peer), ".2f"), detail=peer != shown)

    return [ratio(peer) for peer in peers]


def measurements(
    caption: str,
    rows: List[Tuple[Measurement, BenchCase]],
    first: List[Field],
    peers: List[str],
    last: Tuple[Field, ...] = LAST_FIELDS,
    shown: Optional[str] = None,
) -> Table:
    """Make a table of measurements: the columns `first`, those of `FIELDS`, a ratio for each peer, and `last`."""
    fields = [*first, *FIELDS, *ratios(peers, shown), *last]
    cells = [[field.cell(row, case) for row, case in rows] for field in fields]
    kept = [place for place, of in enumerate(cells) if place < len(first) or any(c not in (None, "") for c in of)]
    columns = [column(fields[place].name, fields[place].detail) for place in kept]
    skipped = [place for place, (row, _) in enumerate(rows) if row.status == SKIPPED]
    return table(caption, columns, [[cells[i][place] for i in kept] for place in range(len(rows))], skipped)


def case_table(case: BenchCase, ideas: bool = False) -> Table:
    untimed = float("inf")
    ordered = sorted(
        case.rows, key=lambda row: (_ORDER[row.kind], 0 if row.kind == LIMIT else row.median_ms or untimed)
    )
    peer = fastest_peer(case)
    first = [Field("kernel" if case.shape is not None else "contender", name)]
    last = (*LAST_FIELDS[:-1], IDEA) if ideas else LAST_FIELDS
    return measurements(
        case.title, [(row, case) for row in ordered], first, case.peers, last, peer.name if peer else None
    )


def case_parts(case: BenchCase, ideas: bool = False) -> List[Part]:
    found: List[Part] = [case_table(case, ideas)]
    late = [row for row in case.timed if row.outliers]
    slowest = "; ".join(f"{row.name} {row.outliers} of {row.runs} runs, up to {row.max_ms:.4g} ms" for row in late)
    found += [Text(f"outliers, beyond the third quartile by more than 1.5 IQR: {slowest}")] if late else []
    found += [Text(f"WRONG: {row.name}: {row.reason}") for row in case.rows if row.status == WRONG]
    noisy = [f"{row.name} {row.spread:.0%}" for row in case.rows if (row.spread or 0.0) > noise.LIMIT]
    if noisy:
        found.append(Text(f"Spread above {noise.LIMIT:.0%}, so that a repeat may differ: {', '.join(noisy)}."))
    found += [Text(said) for said in [noise.about_load(case.load)] if said]
    for row in case.rows:
        found += [Text(f"{row.name}: {finding}") for finding in row.findings]
        if row.layer_ms is not None:
            found.append(Text(f"{row.name}: Layer Time {row.layer_ms:.3f} ms (prolog, forward and epilog)"))
    if case.below_floor:
        below = ", ".join(f"{row.name} ({row.median_ms:.3f} ms)" for row in case.below_floor)
        assert case.shape is not None
        found.append(
            Text(
                f"No % of floor here: {below} took less time than every way to fill the output of "
                f"{4 * case.shape.outputs / 1e6:,.1f} MB alone. The write floor does not apply to an output that stays "
                "in the caches; with a larger --batch, it does not fit them."
            )
        )
    return found
