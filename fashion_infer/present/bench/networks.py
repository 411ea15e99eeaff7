"""The output of `bench net`: throughput, latency and errors of whole networks, by batch size."""

from typing import List, Optional

from ...bench.records import OK, OURS, PEER, STAGE, WHERE, WRONG, BenchCase, BenchResult, LogitsCheck, Measurement
from ..content import Part, Section, Table, Text, compared, number, table, three_digits
from .columns import PEERS, BenchText, case_parts

_HOW = (
    "Random images and random weights of realistic size, the same for all contenders, which run alternately. Ours "
    "takes the pixels as uint8; the conversion to float32 is part of its time. Peers get float32 images{transfers}. "
    "If a contender can run in several ways (layouts NCHW and NHWC), the fastest counts."
)
_COLUMNS = (
    "A time is how long the caller waits{waits}. The tables for 1 image show the latency. p99 is the 99th "
    f"percentile, shown for at least 100 runs. {PEERS} error is the largest difference of a score's logarithm from "
    "that in float64, divided by the range of all these logarithms. changed is the number of checked predictions that "
    "differ from those in float64. There is no write floor, because a fused network does not store the outputs of most "
    "layers."
)
_GPU = {
    "transfers": "; if the images are on the host, peers get uint8 images, which they copy to the device and convert",
    "waits": " or, for images on the device, the time between two events, including the launches",
}
_CPU = {"transfers": "", "waits": ""}


def check(done: LogitsCheck) -> Text:
    what = f"{done.edition}, {done.name}"
    if done.status == OK:
        errors = f"logits of {done.checked} images within {done.error:.1e} of their range of float64's"
        return Text(f"{what}: {errors}, {done.changed} predictions differ")
    return Text(f"{'WRONG: ' if done.status == WRONG else ''}{what}: {done.reason}")


def checks(result: BenchResult) -> Table:
    names = ["network", "ours", ">images", ">error", ">changed", "verdict"]
    rows = [
        [
            c.edition,
            c.name,
            c.checked,
            number(c.error, ".1e"),
            c.changed,
            {OK: "ok", WRONG: f"WRONG: {c.reason}"}.get(c.status, c.reason),
        ]
        for c in result.logits
    ]
    return table("Logits against float64, before anything is timed", names, rows)


def places(cases: List[BenchCase]) -> List[List[BenchCase]]:
    """Group cases by their network and the place of their images, by batch size. Single stages are left out."""
    found = dict.fromkeys((case.edition, case.where) for case in cases if case.where != STAGE)
    return [[case for case in cases if (case.edition, case.where) == place] for place in found]


def fastest(case: BenchCase, kind: str) -> Optional[Measurement]:
    """Return the fastest correct row of a kind in float32. TF32 and fp16 do not count, as they must be requested."""
    rows = (row for row in case.timed if row.kind == kind and row.status != WRONG)
    return next((row for row in rows if row.precision in ("", "float32")), None)


def _how(result: BenchResult) -> List[str]:
    words = _GPU if result.backend == "gpu" else _CPU
    return [_HOW.format(**words), _COLUMNS.format(**words)]


def _sections(result: BenchResult) -> List[Section]:
    found = [Section("checks", "Checks", [checks(result)])]
    for edition in dict.fromkeys(case.edition for case in result.cases):
        cases = [case for case in result.cases if case.edition == edition]
        tables: List[Part] = [_throughput(part) for part in places(cases)]
        tables += [part for case in cases for part in case_parts(case)]
        found.append(Section(edition, edition, tables))
    return found


def _throughput(cases: List[BenchCase]) -> Table:
    rows = []
    for contender in dict.fromkeys(row.name for case in cases for row in case.rows):
        rates = [row.images_s if row else None for row in (case.row(contender) for case in cases)]
        rows.append([contender, *(number(rate, ",.0f") for rate in rates)])
    names = ["contender", *(f">{case.batch:,}" for case in cases)]
    return table(f"Images a second by batch size, {WHERE[cases[0].where]}", names, rows)


def _answer(result: BenchResult) -> List[str]:
    """Compare our network with the fastest peer at the largest batch size, and give its latency for a single image."""
    found = []
    for cases in places(result.cases):
        largest, smallest = cases[-1], cases[0]
        ours, peer = fastest(largest, OURS), fastest(largest, PEER)
        if ours is None:
            found.append(f"{largest.edition}, {WHERE[largest.where]}: ours in float32 was not timed")
            continue
        said = f"{ours.images_s:,.0f} images/s in batches of {largest.batch:,}"
        if peer is not None:
            said += f", {compared(peer.median_ms / ours.median_ms)} {peer.name}"  # type: ignore[operator]
        one = fastest(smallest, OURS) if smallest.batch == 1 and smallest is not largest else None
        if one is not None:
            said += f"; {three_digits(one.median_ms)} ms for a single image"
            said += f" (p99 {three_digits(one.p99_ms)} ms)" if one.p99_ms is not None else ""
        found.append(f"{largest.edition}, {WHERE[largest.where]}: {said}")
    return found


TEXT = BenchText(
    title=lambda result: f"Whole networks on a {result.backend.upper()}, measured",
    chart="Images a second by batch size, every peer as a ratio to ours",
    how=_how,
    sections=_sections,
    closing=lambda result: [],
    answer=_answer,
)
