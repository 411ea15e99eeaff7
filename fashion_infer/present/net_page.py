"""The benchmark of whole networks as a page of the documentation, in Markdown: one page a machine."""

from typing import Optional

from ..measure.net_rows import STAGE, WHERE, Result
from ..measure.rows import OK, WRONG
from .markdown import command, device, line, versions
from .net_report import COLUMNS, figures

_HEAD = """<!-- Written by the command below. Do not edit: run it again. -->
# Whole networks on a {kind}, measured

This page is written by `fashion-infer bench net`, never by hand; in this folder:

    {command}

{device}. {versions}.

Random images, random weights of realistic size. Ours takes the pixels as uint8 and widens them in its own time; peers
get float32 images ready made{transfers}. Everyone takes turns. Times are what the caller waits for{waits}; p99 is given
from 100 runs on. "x" is how many times faster than that peer ours is, by medians. "Error" is the largest difference of
a score's logarithm from float64's, over the range of all of them, and "changed" how many of the checked predictions
differ from float64's. Of several ways to run one (layouts NCHW, NHWC{ways}), the fastest counts.
"""
_GPU = {
    "kind": "GPU",
    "transfers": ", and where images come from the host, uint8 images that they carry over and widen",
    "ways": "; ours from the host in overlapping slices, or in one piece",
    "waits": ", or on the device what lies between its events, launches included",
}
_CPU = {"kind": "CPU", "transfers": "", "ways": "", "waits": ""}


def text(result: Result, name: str, plot: Optional[str] = None, as_json: Optional[str] = None) -> str:
    """The page.

    Parameters
    ----------
    name, plot, as_json
        Names of the page's own file, of the chart that it shows and of the JSON, without folders: all lie beside it.
    """
    parts = [
        _HEAD.format(
            command=command(result.command, name, plot, as_json),
            device=device(result.device),
            versions=versions(result.versions),
            **(_GPU if result.backend == "gpu" else _CPU),
        )
    ]
    if plot:
        parts.append(f"![Images a second by batch size, ours and every peer]({plot})\n")
    if result.not_compared:
        parts.append("Not compared with: " + "; ".join(f"{k} ({v})" for k, v in result.not_compared.items()) + ".\n")
    parts.append(_checks(result))
    for edition in dict.fromkeys(case.edition for case in result.cases):
        cases = [case for case in result.cases if case.edition == edition]
        parts.append(f"## {edition}\n")
        for where in dict.fromkeys(case.where for case in cases):
            if where != STAGE:
                parts.append(_throughput([case for case in cases if case.where == where]))
        parts += [_case(case) for case in cases]
    return "\n".join(parts)


def _checks(result):
    lines = [
        "Logits against float64, before anything is timed:",
        "",
        line(["network", "ours", "images", "largest error over the range", "changed predictions"]),
        line(["---", "---", "--:", "--:", "--:"]),
    ]
    for check in result.logits:
        error = "" if check.error is None else f"{check.error:.1e}"
        verdict = error if check.status == OK else f"WRONG {error}" if check.status == WRONG else check.reason
        changed = "" if check.changed is None else check.changed
        lines.append(line([check.edition, check.name, check.checked, verdict, changed]))
    return "\n".join([*lines, ""])


def _throughput(cases):
    """Images a second by batch size."""
    names = dict.fromkeys(row.name for case in cases for row in case.rows)
    sizes = [f"{case.batch:,}" for case in cases]
    lines = [
        f"Images a second by batch size, {WHERE[cases[0].where]}:",
        "",
        line(["", *sizes]),
        line(["---", *("--:" for _ in sizes)]),
    ]
    for name in names:
        found = [next((row.images_s for row in case.rows if row.name == name), None) for case in cases]
        lines.append(line([name, *("" if rate is None else f"{rate:,.0f}" for rate in found)]))
    return "\n".join([*lines, ""])


def _case(case):
    columns = [*COLUMNS, *(f"x {peer}" for peer in case.peers), "error", "changed"]
    lines = [f"### {case.title}", "", line(["", *columns]), line(["---", *("--:" for _ in columns)])]
    for row in case.rows:
        name = f"{row.name} {row.layout}".rstrip()
        cells = ["WRONG", *("" for _ in columns[1:])] if row.median_ms is None else figures(row, case.peers)
        lines.append(line([name, *cells]))
    return "\n".join([*lines, ""])
