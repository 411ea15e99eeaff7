"""Output of runs over many images in blocks: the number of images, and each node's share."""

from typing import List

from ..system.text import shown
from .content import Output, Part, Text, number, table


def run(outcome) -> List[Part]:
    """Show the line of `run` that scripts parse, and the nodes' shares."""
    source = outcome.data_source
    behind = "" if source == "fashion-mnist" else f" Data: {source}"
    return [
        Output(f"New Inference\nCorrectness: {outcome.correctness} Model: {shown(outcome.model)}{behind}"),
        *_nodes(outcome),
    ]


def predict(outcome) -> List[Part]:
    """Show the nodes' shares in a `predict`."""
    return list(_nodes(outcome))


def kept(outcome, out: str) -> List[Part]:
    """Say where the results are."""
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
