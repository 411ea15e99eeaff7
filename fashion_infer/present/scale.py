"""Output of `run` and `predict` in blocks: the correctness, each node's images and times, and the results' folder."""

from typing import List

from ..system.text import shown
from .content import Output, Part, Text, number, table


def run(outcome) -> List[Part]:
    """Show the lines of `run` that scripts parse, and a table of the nodes."""
    source = outcome.data_source
    behind = "" if source == "fashion-mnist" else f" Data: {source}"
    return [
        Output(f"New Inference\nCorrectness: {outcome.correctness} Model: {shown(outcome.model)}{behind}"),
        *_nodes(outcome),
    ]


def predict(outcome) -> List[Part]:
    return list(_nodes(outcome))


def kept(outcome, out: str) -> List[Part]:
    """Say in which folder the results are, and how many of its files an earlier run had written."""
    before = f"; {outcome.before:,} of its {outcome.blocks:,} files were already there" if outcome.before else ""
    return [Text(f"{outcome.images:,} images in {out}{before}")]


def _nodes(outcome) -> List[Part]:
    if not outcome.nodes:
        return []
    rows = [
        [node.name, node.processes, number(node.images, ","), number(node.seconds, ".2f"), number(node.rate, ",.0f")]
        for node in outcome.nodes
    ]
    return [table("", ["node", ">processes", ">images", ">s", ">images/s"], rows)]
