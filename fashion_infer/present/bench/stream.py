"""The output of `bench net --device all`: images per second on all GPUs of a host, and on one of them."""

from typing import List

from ...bench.stream import StreamResult
from ..content import Section, Text
from .columns import case_parts
from .kinds import BenchText

_HOW = (
    "The network of {edition} with random weights classifies {images:,} random uint8 images in batches of {batch:,}, "
    "from buffers in pinned host memory that are reused; predictions are returned in the order of the images. Each GPU "
    "has three host threads, which take batches in their order. One GPU and all GPUs run alternately; times are "
    "medians of {repeat} passes. The predictions of every pass are compared with those of one GPU, which are compared "
    "with float64 for some images."
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
    return [f"Memory of the process: {resident}; a pass grew it by at most {grown}.", *alone]


TEXT = BenchText(
    title=lambda result: "All GPUs of one host, measured",
    chart="",
    how=_how,
    sections=_sections,
    closing=lambda result: [],
    answer=_answer,
)
