"""The text of `bench net --device all`: images per second on all GPUs of a host, and on one."""

from typing import List

from ...bench.stream import StreamResult
from ..content import Section, Text
from .columns import case_parts
from .kinds import BenchText

_HOW = (
    "{images:,} images of {edition} in batches of {batch:,}, uint8, from buffers in pinned host memory that are used "
    "again and again, to predictions in the order of the images. Random images and weights. Each GPU has three "
    "threads of the host, which take batches in their order. One GPU and all take turns; times are medians of {repeat} "
    "passes. Every prediction of every pass is compared with those of one GPU, and these, of some images, with "
    "float64's."
)


def _how(result: StreamResult) -> List[str]:
    (case,) = result.cases
    numbers = {"images": case.batch, "edition": case.edition, "batch": result.batches[0], "repeat": result.repeat}
    return [_HOW.format(**numbers)]


def _sections(result: StreamResult) -> List[Section]:
    (case,) = result.cases
    return [Section("stream", case.edition, [*case_parts(case), *map(Text, _answer(result))])]


def _answer(result: StreamResult) -> List[str]:
    grown = ", ".join(f"{passes.grown / 2**20:.1f} MiB on {passes.name}" for passes in result.passes)
    resident = f"{result.resident / 2**20:,.0f} MiB resident" if result.resident else "unknown"
    alone = ["This host has one GPU: there is nothing to compare it with."] if len(result.passes) == 1 else []
    return [f"Memory of the process: {resident}; it grew by at most {grown} during a pass.", *alone]


TEXT = BenchText(
    title=lambda result: "All GPUs of one host, measured",
    chart="",
    how=_how,
    sections=_sections,
    closing=lambda result: [],
    answer=_answer,
)
