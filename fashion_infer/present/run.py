"""Output of `run`, `course`, `predict` and `verify`: the lines that scripts parse, and tables."""

import statistics
from typing import List, Sequence, Union

import numpy as np

from ..system.text import shown
from . import kernel
from .content import Column, Output, Part, Table, Text, number, percent, table


def lines(result) -> str:
    """Return the lines that the course's scripts parse, for a result of `pipeline.run`."""
    said = ["New Inference", *(f"Op Time: {seconds:f}" for _, seconds in result.op_times)]
    data = _data(result)
    if result.model.endswith("baseline") and result.operator == "builtin":
        said.append(f"EvalMetric: {{'accuracy': {result.correctness}}}{data}")
    else:
        said.append(f"Correctness: {result.correctness} Model: {shown(result.model)}{data}")
    return "\n".join(said)


def minidnn_lines(result) -> str:
    """Return the lines that mini-dnn's programs printed: times of convolutions in ms, then the accuracy."""
    said = []
    for layer in (layer for layer in result.layers if layer.custom):
        said.append(f"Conv-{result.backend.upper()}==")
        if result.backend == "gpu":
            passes = zip(layer.upload, layer.seconds, layer.download)
            said.append(f"Layer Time: {1e3 * statistics.median(map(sum, passes)):f} ms")
        said.append(f"Op Time: {1e3 * layer.median:f} ms")
    said.append(f"Test Accuracy: {result.correctness:g}{_data(result)}")
    return "\n".join(said)


def _data(result) -> str:
    return "" if result.data_source == "fashion-mnist" else f" Data: {result.data_source}"


def minidnn_parts(result) -> List[Part]:
    return [Output(minidnn_lines(result)), layers(result)]


def parts(result, caption: str = "") -> List[Part]:
    """Show a run: the lines that scripts parse, the layers, and changed predictions or a kernel file's verdict."""
    found: List[Part] = [Output(lines(result)), layers(result, caption)]
    if result.changed is not None:
        changed = f"{result.changed} of {result.n} predictions differ from float32's"
        found.append(Text(f"precision {result.precision}: {changed}"))
    if result.submission is not None:
        found += kernel.verdict(result.submission)
    return found


def layers(result, caption: str = "") -> Table:
    staged = any(sum(layer.upload) + sum(layer.download) for layer in result.layers)
    phases = any(layer.layer_seconds for layer in result.layers)
    total = sum(layer.median for layer in result.layers) or 1.0
    columns: List[Union[str, Column]] = ["layer", "operator", "kernel", "*>op time, s"]
    columns += [Column("min, s", True, detail=True), Column("max, s", True, detail=True), "*>share"]
    columns += [">layer time, s"] if phases else []
    columns += [">transfers, s"] if staged else []
    tried = result.submission.layers if result.submission is not None else ()
    findings = {one.what: one.findings for one in tried}
    rows = []
    for layer in result.layers:
        times = [number(value, ".6f") for value in (layer.median, min(layer.seconds), max(layer.seconds))]
        ran = layer.kernel and kernel.marked(layer.kernel, findings.get(layer.name, ()))
        row = [layer.name, layer.operator, ran, *times, percent(layer.median / total)]
        if phases:
            times_of_phases = layer.layer_seconds
            row.append(number(statistics.median(times_of_phases), ".6f") if times_of_phases else None)
        if staged:
            row.append(number(layer.upload[0] + layer.download[0], ".6f") if layer.custom else None)
        rows.append(row)
    return table(caption, columns, rows)


def predictions(pictures: Sequence[str], scores: np.ndarray, class_names: Sequence[str]) -> Table:
    """Make a table of the two likeliest classes of each picture; scores have the shape (n, classes)."""
    columns = ["picture", "class", ">probability", "next", ">probability"]
    rows = []
    for picture, row in zip(pictures, scores):
        best = row.argsort()[::-1][:2]
        rows.append([picture, *(cell for i in best for cell in (class_names[i], number(float(row[i]), ".3f")))])
    return table("", columns, rows)


def in_blocks(outcome) -> List[Part]:
    source = outcome.data_source
    behind = "" if source == "fashion-mnist" else f" Data: {source}"
    return [
        Output(f"New Inference\nCorrectness: {outcome.correctness} Model: {shown(outcome.model)}{behind}"),
        *nodes(outcome),
    ]


def kept(outcome, out: str) -> List[Part]:
    """Say in which folder the results are, and how many of its files an earlier run had written."""
    before = f"; {outcome.before:,} of its {outcome.blocks:,} files were already there" if outcome.before else ""
    return [Text(f"{outcome.images:,} images in {out}{before}")]


def nodes(outcome) -> List[Part]:
    """Make a table of the images and times of each node; an empty list if none worked."""
    if not outcome.nodes:
        return []
    rows = [
        [node.name, node.processes, number(node.images, ","), number(node.seconds, ".2f"), number(node.rate, ",.0f")]
        for node in outcome.nodes
    ]
    return [table("", ["node", ">processes", ">images", ">s", ">images/s"], rows)]


def checks(found: Sequence, caption: str = "") -> Table:
    columns = ["model", "weights", "mode", "op", "backend", "data", "*>n", "*>expected", "*>got", "*verdict"]
    rows = [
        [c.model, c.weights, c.mode, c.operator, c.backend, c.source, c.n, c.expected, c.got, "ok" if c.ok else "WRONG"]
        for c in found
    ]
    return table(caption, columns, rows)


def checks_line(found: Sequence) -> str:
    one = found[0]
    verdicts = ", ".join(f"{'ok' if c.ok else 'WRONG'} on {c.n:,} images ({c.got:g})" for c in found)
    return f"{one.model}, {one.weights} weights, {one.mode} mode, {one.operator}, {one.backend}: {verdicts}"
