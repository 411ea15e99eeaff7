"""The benchmark of whole networks: throughput, latency and errors, by batch size."""

from typing import List, Optional

from ...bench.records import OK, OURS, PEER, STAGE, WHERE, WRONG, Case, Check, Measurement, Result
from ..content import Command, Page, Part, Picture, Section, Table, Text, number, table
from .common import ERROR, Field, case_parts, figure, head, left_out, name, ratios, times, verdict

_HOW = (
    "Random images and random weights of realistic size, the same for all. All contenders take turns. Ours takes the "
    "pixels as uint8 and widens them in its own time. Peers get images that are float32 already{transfers}. Of several "
    "ways to run a contender (layouts NCHW and NHWC) the fastest counts."
)
_COLUMNS = (
    "Times are what the caller waits for{waits}. The tables of 1 image are the latency of a single one. p99 is the "
    "99th percentile, given from 100 runs on. The columns x PEER say how many times faster than that peer a row is, by "
    "medians. error is the largest difference of a score's logarithm from float64's, over the range of all of them. "
    "changed is the number of checked predictions that differ from float64's."
)
_GPU = {
    "transfers": "; where images come from the host, they get uint8 images, which they carry over and widen",
    "waits": ", or on the device the time between its events, launches included",
}
_CPU = {"transfers": "", "waits": ""}


def fields(case: Case) -> List[Field]:
    """The columns of a case's table."""
    return [
        Field("ours or peer", name),
        ERROR,
        Field(">changed", lambda row, case: row.changed),
        *times(".4g"),
        figure("p99 ms", "p99_ms", ".4g"),
        figure("images/s", "images_s", ",.0f"),
        *ratios(case),
    ]


def check(check: Check) -> List[Part]:
    """What the check of a network's logits found, in a line for the terminal."""
    what = f"{check.edition}, {check.name}"
    if check.status == OK:
        errors = f"logits of {check.checked} images within {check.error:.1e} of their range of float64's"
        return [Text(f"{what}: {errors}, {check.changed} predictions differ")]
    return [Text(f"{'WRONG: ' if check.status == WRONG else ''}{what}: {check.reason}")]


def case(case: Case) -> List[Part]:
    """One case's table."""
    return case_parts(case, fields(case))


def parts(result: Result, picture: Optional[str]) -> List[Part]:
    """All cases, as a section of a page; `picture` is the chart's file, where there is one."""
    found: List[Part] = [Text(f"{result.device['name']}."), *how(result), Command(result.command)]
    found += [Picture(picture, _alt(result))] if picture else []
    found.append(checks(result))
    found += _cases(result.cases)
    return found + left_out(result)


def page(result: Result, file: str, plot: Optional[str] = None, as_json: Optional[str] = None) -> Page:
    """The page of documentation; see `common.head`."""
    top = head(result, file, plot, as_json, how(result), "Images a second by batch size, every peer as a ratio to ours")
    sections = []
    for edition in dict.fromkeys(case.edition for case in result.cases):
        sections.append(Section(edition, edition, _cases([c for c in result.cases if c.edition == edition])))
    kind = "GPU" if result.backend == "gpu" else "CPU"
    return Page(f"Whole networks on a {kind}, measured", [*top, checks(result)], sections)


def how(result: Result) -> List[Part]:
    """How it was measured, and what the columns mean."""
    words = _GPU if result.backend == "gpu" else _CPU
    return [Text(_HOW.format(**words)), Text(_COLUMNS.format(**words))]


def checks(result: Result) -> Table:
    """The table of the checks that come before the timing."""
    columns = ["network", "ours", ">images", ">error", ">changed", "verdict"]
    rows = [
        [c.edition, c.name, c.checked, number(c.error, ".1e"), c.changed, verdict(c.status, c.reason)]
        for c in result.logits
    ]
    return table("Logits against float64, before anything is timed", columns, rows)


def _cases(cases: List[Case]) -> List[Part]:
    """Images a second in every place, then every case."""
    found: List[Part] = [_throughput(part) for part in places(cases)]
    for each in cases:
        found += case(each)
    return found


def places(cases: List[Case]) -> List[List[Case]]:
    """The whole network's cases, those of one place together; batch sizes ascend."""
    places = dict.fromkeys((case.edition, case.where) for case in cases if case.where != STAGE)
    return [[case for case in cases if (case.edition, case.where) == place] for place in places]


def _throughput(cases: List[Case]) -> Table:
    rows = []
    for contender in dict.fromkeys(row.name for case in cases for row in case.rows):
        rates = [next((row.images_s for row in case.rows if row.name == contender), None) for case in cases]
        rows.append([contender, *(number(rate, ",.0f") for rate in rates)])
    columns = ["ours or peer", *(f">{case.batch:,}" for case in cases)]
    return table(f"Images a second by batch size, {WHERE[cases[0].where]}", columns, rows)


def _alt(result: Result) -> str:
    said = "; ".join(f"{WHERE[cases[0].where]}, {_main_figures(cases)}" for cases in places(result.cases))
    return f"Line chart of images a second by batch size, as a ratio to ours, every peer. {said[:1].upper()}{said[1:]}."


def _main_figures(cases: List[Case]) -> str:
    """Ours with the largest batch beside the fastest peer, and a single image, in words."""
    largest, smallest = cases[-1], cases[0]
    ours, peer = fastest(largest, OURS), fastest(largest, PEER)
    if ours is None:
        return "ours in float32 was not timed"
    said = f"{ours.name} reaches {ours.images_s:,.0f} images a second in batches of {largest.batch:,}"
    if peer is not None:
        said += f", {peer.median_ms / ours.median_ms:.2f} times the fastest peer's ({peer.name})"
    one = fastest(smallest, OURS) if smallest.batch == 1 else None
    if one is not None:
        said += f", and takes {one.median_ms:.3g} ms for a single image"
        said += f" (p99 {one.p99_ms:.3g} ms)" if one.p99_ms is not None else ""
    return said


def fastest(case: Case, kind: str) -> Optional[Measurement]:
    """Of ours only in float32: TF32 and fp16 are used where they are asked for."""
    timed = [row for row in case.rows if row.kind == kind and row.timed and row.precision in ("", "float32")]
    return min(timed, key=lambda row: row.median_ms, default=None)
