"""The benchmark of all GPUs of a host: images a second beside those of one."""

from typing import List, Optional

from ...bench.stream import Passes, StreamResult
from ..content import Page, Part, Section, Text, number, table
from .common import head

_HOW = (
    "{images:,} images of {edition} in batches of {batch:,}, uint8, from buffers in pinned host memory that are used "
    "again and again, to predictions in the order of the images. Random images and weights. Each GPU has three "
    "threads of the host, which take batches in their order. One GPU and all take turns; times are medians of {repeat} "
    "passes. "
    "Every prediction of every pass is compared with those of one GPU, and these, of some images, with float64's. "
    "Memory is what the process's resident memory grew by during a pass, at most."
)


def progress(passes: Passes) -> List[Part]:
    """The last pass, in a line for the terminal."""
    return [Text(f"{_gpus(passes)}: {passes.seconds[-1]:.3f} s")]


def parts(result: StreamResult) -> List[Part]:
    """The table, and what is wrong."""
    one = result.passes[0]
    rows = []
    for passes in result.passes if one.seconds else ():
        rate = result.request.images / passes.median
        rows.append(
            [_gpus(passes), number(passes.median, ".3f"), number(min(passes.seconds), ".3f"), number(rate, ",.0f"),
             number(one.median / passes.median, ".2f"), number(passes.grown / 2**20, ".1f")]
        )  # fmt: skip
    columns = ["on", ">median s", ">min s", ">images/s", ">x one GPU", ">memory grew MiB"]
    resident = f", {result.resident / 2**20:,.0f} MiB resident" if result.resident else ""
    found: List[Part] = [
        table(f"{result.request.images:,} images of {result.request.edition}{resident}", columns, rows)
    ]
    if len(result.passes) == 1:
        found.append(Text("This host has one GPU: there is nothing to compare it with."))
    return found + [Text(f"WRONG: {reason}") for reason in result.wrong]


def page(result: StreamResult, file: str, plot: Optional[str] = None, as_json: Optional[str] = None) -> Page:
    """The page of documentation; there is no chart."""
    how: List[Part] = [Text(_HOW.format(**result.request._asdict()))]
    top = head(result, file, plot, as_json, how, "")
    return Page("All GPUs of one host, measured", top, [Section("stream", result.request.edition, parts(result))])


def _gpus(passes: Passes) -> str:
    return "1 GPU" if len(passes.gpus) == 1 else f"{len(passes.gpus)} GPUs"
