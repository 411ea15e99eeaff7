"""The text of `bench conv`: one table per convolution, and the conclusion in a sentence."""

from typing import List

from ...bench import peers
from ...bench.conclusions import Conclusion, conclusions, faster_than_auto
from ...bench.records import LIMIT, PEER, WRONG, BenchResult
from ..content import Part, Section, Table, Text, compared, number, table
from . import columns
from .columns import PEERS, BenchText, Field, case_parts, measurements

_HOW = (
    "Random images, {batch}, tensors {where}. Times are of at least {repeat} runs, or of three runs if a contender "
    "takes longer than {slow}. The contenders run alternately; rows are sorted by time."
)
_COLUMNS = (
    "GB/s counts input, weights and output, each moved once. The write floor is the time of only writing the layer's "
    "output, by the fastest of several ways, timed alternately with the contenders; % of floor is the floor divided by "
    f"the median time. {PEERS} Each kernel is first compared with a convolution in float64: error is the largest "
    "difference divided by the output's largest magnitude. The kernel that auto runs is marked (auto)."
)
_FILES = (
    "The time of a kernel file is its Op Time, as its format defines it: a forward pass and a device synchronise, "
    "which includes some microseconds for the launch on the host. Layer ms is the time of prolog, forward and epilog. "
    "A column class shows the precision of results if it differs: float32, tf32, half or incorrect."
)
_GPU = {"where": "on the device, timed by its events", "slow": "8 ms"}
_CPU = {"where": "in memory that is used again", "slow": "2 s"}


def _how(result: BenchResult) -> List[str]:
    batch = f"{result.batches[0]:,} in a batch" if len(result.batches) == 1 else "as many as the tables say"
    words = _GPU if result.backend == "gpu" else _CPU
    files = any(row.file for case in result.cases for row in case.rows)
    return [_HOW.format(batch=batch, repeat=result.repeat, **words), _COLUMNS, *([_FILES] if files else [])]


def _sections(result: BenchResult) -> List[Section]:
    """Make each edition's tables. For several convolutions, one more table describes what each contender does."""
    several = len(result.cases) > 1
    found = [Section("overview", "Overview", _overview(result))] if len(result.batches) > 1 else []
    found += [Section("contenders", "Contenders", [_contenders(result)])] if several else []
    for edition in dict.fromkeys(case.edition for case in result.cases):
        tables = [case_parts(case, not several) for case in result.cases if case.edition == edition]
        found.append(Section(edition, edition, [part for parts in tables for part in parts]))
    answer: List[Part] = [Text(text) for text in _answer(result)]
    return [*found, Section("conclusion", "Conclusion", answer)] if answer else found


def _contenders(result: BenchResult) -> Table:
    known = {row.name: (row, case) for case in result.cases for row in case.rows if row.kind != PEER}
    rows = [
        [columns.name(row, case) if row.kind == LIMIT else row.title, row.step, columns.idea(row)]
        for row, case in known.values()
    ]
    return table("What each contender does", ["contender", ">step", "idea"], rows)


def _overview(result: BenchResult) -> List[Part]:
    """Make a table with one row per case, about the kernel that auto runs, for results with several batch sizes."""
    rows = [(row, case) for case in result.cases for row in [case.row(case.auto)] if row is not None]
    return [one_row_a_case("The kernel that auto runs", rows, [Field("convolution", lambda row, case: case.title)])]


def one_row_a_case(caption: str, rows, first: List[Field]) -> Table:
    """Make a table with one row per case: the columns `first`, which identify the case, then our kernel's figures."""
    peers = list(dict.fromkeys(peer for _, case in rows for peer in case.peers))
    floor = Field(">floor ms", lambda row, case: number(case.fill_ms, ".4g"))
    kernel = Field("kernel", lambda row, case: f"{row.name}{' (WRONG)' if row.status == WRONG else ''}")
    return measurements(caption, rows, [*first, kernel, floor], peers, (), peers[0] if peers else None)


def _answer(result: BenchResult) -> List[str]:
    found = []
    for case in result.cases:
        faster = faster_than_auto(case)
        if faster:
            row, ratio, beyond = faster
            which = f"{case.name}: " if len(result.cases) > 1 else ""
            how = "beyond the noise: auto did not choose the best here" if beyond else "which is within the noise"
            found.append(f"{which}{row.name} was {ratio:.2f} times faster than {case.auto}, which auto runs, {how}.")
    return found + [sentence(one) for one in conclusions(result)]


def sentence(one: Conclusion) -> str:
    name = f"{one.name} (auto)" if one.auto else one.name
    if one.wrong:
        return f"{name}: WRONG, {one.wrong}"
    said = [f"{name}: correct" + (f" on {one.cases} layers" if one.cases > 1 else "")]
    if one.peer:
        said.append(f"{compared(one.peer[1])} {peer_title(one.peer[0])}")
    if one.percent_of_floor is not None:
        digits = 0 if one.percent_of_floor >= 10 else 1
        said.append(f"{one.percent_of_floor:.{digits}f}% of the write floor's speed")
    if one.best:
        said.append(f"{compared(1 / one.best[1])} our best ({one.best[0]})")
    return ", ".join(said) + one.noise


def peer_title(row: str) -> str:
    """Return the title of a peer from its row's name, which may end with a precision."""
    name, *precision = row.split()
    titles = {known.name: known.title for known in peers.PEERS}
    return " ".join([titles.get(name, name), *precision])


TEXT = BenchText(
    title=lambda result: "The convolution kernels, measured",
    chart="Time of every kernel and peer, layer by layer, on a logarithmic axis",
    how=_how,
    sections=_sections,
    closing=lambda result: _overview(result) if len(result.batches) > 1 else [],
    answer=_answer,
)
