"""Many images at once: how many there are, and what each node did."""

from typing import List

from ..system.text import shown
from .content import Output, Part, Text, number, table


def run(outcome) -> List[Part]:
    """The line of `run` that scripts parse, and the nodes."""
    source = outcome.data_source
    behind = "" if source == "fashion-mnist" else f" Data: {source}"
    return [
        Output(f"New Inference\nCorrectness: {outcome.correctness} Model: {shown(outcome.model)}{behind}"),
        *_nodes(outcome),
    ]


def predict(outcome) -> List[Part]:
    """The nodes of `predict`."""
    return list(_nodes(outcome))


def kept(outcome, out: str) -> List[Part]:
    """Where the results are."""
    before = f"; {outcome.before:,} of its {outcome.blocks:,} files were there" if outcome.before else ""
    return [Text(f"{outcome.images:,} images in {out}{before}")]


def _nodes(outcome) -> List[Part]:
    if not outcome.nodes:
        return []
    rows = [
        [node.name, node.processes, number(node.images, ","), number(node.seconds, ".2f"), number(node.rate, ",.0f")]
        for node in outcome.nodes
    ]
    return [table("", ["node", ">processes", ">images", ">s", ">images/s"], rows)]
