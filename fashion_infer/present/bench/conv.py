"""The benchmark of convolutions: a table a convolution."""

from typing import List, Optional

from ...bench.records import FILL, LIMIT, OURS, PEER, SKIPPED, WRONG, Case, Measurement, Result
from ..content import Command, Page, Part, Picture, Section, Text, number, table
from ..units import arithmetic
from .common import ERROR, Field, case_parts, figure, head, left_out, name, ratios, times

_HOW = (
    "Random images, {batch}, tensors {where}. Times are of at least {repeat} runs, or of three runs of a "
    "contender that takes longer than {slow}. All contenders take turns."
)
_COLUMNS = (
    "GB/s counts input, weights and output, each moved once. A limit moves memory alone: % of limit compares with the "
    "time to write the layer's output and do nothing else. The columns x PEER say how many times faster than that peer "
    "a row is, by medians. Each kernel is first compared with a convolution in float64: error is the largest "
    "difference over the output's largest magnitude. The kernel that auto runs is marked (auto)."
)

_FILES = (
    "The time of a kernel file is its Op Time, as its format takes it: a forward pass and a device synchronise, so "
    "that the host's part of a launch, some microseconds, is in it. Layer ms is prolog, forward and epilog. The class "
    "is what its results look like: float32, tf32 or half, or wrong."
)


def fields(case: Case, backend: str, ideas: bool = True) -> List[Field]:
    """The columns of a convolution's table, with or without each contender's idea."""
    unit, scale = arithmetic(backend)
    return [
        Field("kernel", name),
        Field(">step", lambda row, case: row.step, detail=True),
        ERROR,  # whether it is right comes before how fast it is
        *times(".3f"),
        figure("GB/s", "gb_s", ".1f"),
        Field(f">{unit}", lambda row, case: number(row.tflop_s and scale * row.tflop_s, ".1f")),
        figure("% of limit", "percent_of_limit", ".1f"),
        *ratios(case),
        *_of_files(case),
        *_last(case, ideas),
    ]


def _of_files(case: Case) -> List[Field]:
    """The columns that kernel files add."""
    if not any(row.file for row in case.rows):
        return []
    phases = any(row.layer_ms is not None for row in case.rows)
    precision = Field("class", lambda row, case: row.precision if row.kind == OURS else None)
    return [precision, *([figure("layer ms", "layer_ms", ".3f")] if phases else [])]


def _last(case: Case, ideas: bool) -> List[Field]:
    """The column of ideas with what is to note, or that alone where there is any."""
    if ideas:
        return [Field("idea", lambda row, case: " ".join(filter(None, (_idea(row), _note(row)))), detail=True)]
    return [Field("note", lambda row, case: _note(row), detail=True)] if any(map(_note, case.rows)) else []


def _idea(row: Measurement) -> str:
    return row.summary or "peer"


def _note(row: Measurement) -> str:
    return {WRONG: "(WRONG)", SKIPPED: "(does not take this layer)"}.get(row.status, "")


def case(case: Case, backend: str, ideas: bool = True) -> List[Part]:
    """One convolution's table, and what its kernel files were seen to do besides."""
    found = [Text(f"{row.name}: {finding}") for row in case.rows for finding in row.findings]
    return [*case_parts(case, fields(case, backend, ideas)), *_above_the_limit(case), *found]


def _above_the_limit(case: Case) -> List[Part]:
    """Why a kernel can take less than the limit: the limit is measured as well, and is no law."""
    above = [f"{row.name} {row.percent_of_limit:.1f}%" for row in case.rows if (row.percent_of_limit or 0) > 100]
    if not above:
        return []
    megabytes = 4 * case.shape.outputs / 1e6
    return [
        Text(
            f"More than 100% of the limit: {', '.join(above)}. The limit is measured too: an output of "
            f"{megabytes:,.1f} MB filled in turn with the others. Less time than that is a matter of what stays in the "
            "caches, of how the stores are made, or of the clock; a larger --batch and more --repeat tell these apart."
        )
    ]


def parts(result: Result, picture: Optional[str]) -> List[Part]:
    """All convolutions, as a section of a page; `picture` is the chart's file, where there is one."""
    fastest = "; ".join(_fastest(case) for case in result.cases)
    alt = f"Chart of the median time of every kernel and peer, a dot each on a logarithmic axis. {fastest}."
    found: List[Part] = [Text(f"{result.device['name']}."), *how(result), Command(result.command)]
    found += [Picture(picture, alt)] if picture else []
    for each in result.cases:
        found += case(each, result.backend)
    return found + left_out(result)


def page(result: Result, file: str, plot: Optional[str] = None, as_json: Optional[str] = None) -> Page:
    """The page of documentation; see `common.head`. Of several convolutions it says each contender's idea once."""
    several = len(result.cases) > 1
    top = head(result, file, plot, as_json, how(result), "Time of every kernel and peer, layer by layer")
    sections = [Section("overview", "Overview", overview(result))] if len(result.batches) > 1 else []
    sections += [Section("contenders", "Contenders", [_contenders(result)])] if several else []
    for edition in dict.fromkeys(each.edition for each in result.cases):
        tables = [case(each, result.backend, not several) for each in result.cases if each.edition == edition]
        sections.append(Section(edition, edition, [part for parts in tables for part in parts]))
    return Page("The convolution kernels, measured", top, sections)


def _contenders(result: Result) -> Part:
    """What is measured, each with its step of the ladder and its idea."""
    known = {row.title: row for each in result.cases for row in each.rows if row.kind != PEER}
    rows = [[f"limit: {who}" if row.kind == LIMIT else who, row.step, _idea(row)] for who, row in known.items()]
    return table("What each contender does", ["contender", ">step", "idea"], rows)


def overview(result: Result) -> List[Part]:
    """Every convolution in a row: the limit, the kernel that auto runs, and the peers."""
    peers = list(dict.fromkeys(peer for each in result.cases for peer in each.peers))
    columns = ["convolution", "kernel", ">fill ms", ">auto ms", ">x fill", *(f">{peer} ms" for peer in peers)]
    rows = []
    for each in result.cases:
        times = {row.name: row.median_ms for row in each.rows}
        fill, auto = times[FILL], times.get(each.auto)
        ours = [number(fill, ".3f"), number(auto, ".3f"), number(auto and auto / fill, ".2f")]
        rows.append([each.title, each.auto, *ours, *(number(times.get(peer), ".3f") for peer in peers)])
    return [table("The kernel that auto runs, beside the time to write the output", columns, rows)]


def how(result: Result) -> List[Part]:
    """How it was measured, and what the columns mean."""
    gpu = result.backend == "gpu"
    measured = _HOW.format(
        batch=f"{result.batches[0]:,} in a batch" if len(result.batches) == 1 else "as many as the tables say",
        repeat=result.repeat,
        where="on the device, timed by its events" if gpu else "in memory that is used again",
        slow="8 ms" if gpu else "2 s",
    )
    files = any(row.file for case in result.cases for row in case.rows)
    return [Text(measured), Text(_COLUMNS), *([Text(_FILES)] if files else [])]


def _fastest(case: Case) -> str:
    kernels = [row for row in case.rows if row.kind == OURS and row.timed]
    if not kernels:
        return f"{case.title}: no kernel was timed"
    best = min(kernels, key=lambda row: row.median_ms)
    return f"{case.title}: the fastest kernel is {best.name}, {best.median_ms:.3g} ms"
