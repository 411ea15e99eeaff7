"""The report's section on the whole network: throughput, latency and errors, by batch size."""

from typing import List, Optional

from ..measure.net_rows import OURS, PEER, STAGE, WHERE, Case, Result, Row
from ..measure.rows import OK, WRONG
from . import report_plots as plots
from .content import Command, Missing, Part, Picture, Table, Text, number, table

_HOW = (
    "{device}. Random images and random weights of realistic size, the same for all, who take turns. Ours takes the "
    "pixels as uint8 and widens them in its own time; peers get float32 images ready made{transfers}. Times are what "
    "the caller waits for{waits}. The tables of 1 image are the latency of a single one: its median and its 99th "
    "percentile (p99), which is given from 100 runs on. Error: largest difference of a score's logarithm from "
    "float64's, over the range of all of them; changed: checked predictions that differ from float64's. PyTorch's "
    "compiler, which works for minutes, is not among the peers: bench net runs it when asked."
)
_GPU = {
    "transfers": ", and where images come from the host, uint8 images that they carry over and widen",
    "waits": ", or on the device what lies between its events, launches included",
}
_CPU = {"transfers": "", "waits": ""}


def parts(result: Result, drawn: bool) -> List[Part]:
    """The section of what `bench net` measured; times in milliseconds.

    Parameters
    ----------
    drawn
        Whether `plots.NETWORK` is there.
    """
    how = _HOW.format(device=result.device["name"], **(_GPU if result.backend == "gpu" else _CPU))
    found: List[Part] = [Text(how), Command(result.command)]
    if drawn:
        found.append(Picture(plots.NETWORK, _alt(result)))
    found.append(_checks(result))
    found += [_throughput(cases) for cases in _places(result)]
    found += [_case(case) for case in result.cases]
    if result.not_compared:
        found.append(Missing("Not compared with " + ", ".join(f"{k} ({v})" for k, v in result.not_compared.items())))
    return found


def _places(result) -> List[List[Case]]:
    """The whole network's cases, those from and to the same place together; batch sizes ascend."""
    places = dict.fromkeys(case.where for case in result.cases if case.where != STAGE)
    return [[case for case in result.cases if case.where == where] for where in places]


def _alt(result) -> str:
    said = "; ".join(f"{WHERE[cases[0].where]}, {_main_figures(cases)}" for cases in _places(result))
    return f"Line chart of images a second by batch size, ours and every peer. {said[:1].upper()}{said[1:]}."


def _main_figures(cases) -> str:
    """Ours with the largest batch beside the fastest peer, and a single image, in words."""
    largest, smallest = cases[-1], cases[0]
    ours, peer = _fastest(largest, OURS), _fastest(largest, PEER)
    if ours is None:
        return "ours in float32 was not timed"
    said = f"{ours.name} reaches {ours.images_s:,.0f} images a second in batches of {largest.batch:,}"
    if peer is not None:
        said += f", {peer.median_ms / ours.median_ms:.2f} times the fastest peer's ({peer.name})"
    one = _fastest(smallest, OURS) if smallest.batch == 1 else None
    if one is not None:
        said += f", and takes {one.median_ms:.3g} ms for a single image"
        said += f" (p99 {one.p99_ms:.3g} ms)" if one.p99_ms is not None else ""
    return said


def _fastest(case, kind) -> Optional[Row]:
    """Of ours only in float32: TF32 and half precision are computed in where they are asked for."""
    timed = [r for r in case.rows if r.kind == kind and r.median_ms is not None and r.precision in ("", "float32")]
    return min(timed, key=lambda row: row.median_ms, default=None)


def _checks(result) -> Table:
    rows = []
    for check in result.logits:
        verdict = {OK: "ok", WRONG: f"WRONG: {check.reason}"}.get(check.status, check.reason)
        error = number(check.error, ".1e")
        rows.append([check.edition, check.name, check.checked, error, check.changed, verdict])
    columns = ["network", "ours", ">images", ">error", ">changed", "verdict"]
    return table("Logits against float64, before anything is timed", columns, rows)


def _throughput(cases) -> Table:
    rows = []
    for name in dict.fromkeys(row.name for case in cases for row in case.rows):
        found = [next((row.images_s for row in case.rows if row.name == name), None) for case in cases]
        rows.append([name, *(number(rate, ",.0f") for rate in found)])
    columns = ["ours or peer", *(f">{case.batch:,}" for case in cases)]
    return table(f"Images a second by batch size, {WHERE[cases[0].where]}", columns, rows)


def _case(case) -> Table:
    rows = []
    for row in case.rows:
        name = f"{row.name} {row.layout}".rstrip() + (f" (WRONG: {row.reason})" if row.status == WRONG else "")
        times = [number(ms, ".4g") for ms in (row.min_ms, row.median_ms, row.p99_ms)]
        ratios = [number(row.faster_than.get(peer), ".2f") for peer in case.peers]
        rows.append([name, *times, number(row.images_s, ",.0f"), *ratios, number(row.error, ".1e"), row.changed])
    columns = ["ours or peer", ">min ms", ">median ms", ">p99 ms", ">images/s"]
    columns += [*(f">x {peer}" for peer in case.peers), ">error", ">changed"]
    return table(case.title, columns, rows)
