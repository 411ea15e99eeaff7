"""The output of `compare`: two files of measurements side by side."""

from typing import List

from ..bench.verdicts import Comparison
from ..system.text import shown
from .content import Part, Text, number, table


def parts(found: Comparison) -> List[Part]:
    """Make tables that compare two files: settings that differ, all times, and facts that must not change."""
    parts: List[Part] = [Text(f"A: {shown(found.a.name)}\nB: {shown(found.b.name)}")]
    if found.settings:
        parts.append(table("", ["setting that differs", "A", "B"], found.settings))
    rows = []
    for line in found.lines:
        times = [number(value, ".4g") for value in (line.a, line.b)]
        rows.append([line.what, *times, number(line.ratio, ".3f"), number(line.noise, ".3g"), line.verdict])
    parts.append(table("", ["median, ms", ">A", ">B", ">B / A", ">noise", "verdict of B"], rows))
    if found.facts:
        parts.append(table("", ["must not change", "A", "B", "verdict"], found.facts))
    return parts
