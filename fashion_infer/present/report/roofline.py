"""Kernels and peers under what the device can do at most."""

from typing import Dict, List, Optional

from ...measure.ceilings import roof
from ...measure.records import Result
from ..charts.roofline import ceiling, three_digits
from ..content import Command, Missing, Part, Picture, Table, Text, number, table

_HOW = (
    "Arithmetic intensity counts input, weights and output, each moved once: a layer has one intensity, whatever the "
    "kernel. A kernel above a ceiling of memory kept part of its data in the cache. The roof is the lower of two "
    "rates: what the faster of fill and copy allows at that intensity, and the fastest matrix product. The points are "
    "those of the ladder; the ceilings are those of the profile below."
)


def parts(
    result: Result, ceilings: Dict[str, float], no_ceilings: str, commands: List[str], picture: Optional[str]
) -> List[Part]:
    """The section of a page.

    Parameters
    ----------
    result
        The benchmark of convolutions.
    ceilings, no_ceilings
        From `measure.ceilings`; where they could not be measured, why.
    commands
        That give the figures again.
    picture
        The chart's file, where there is one.
    """
    found: List[Part] = [Text(_HOW), *map(Command, commands)]
    if picture:
        shown = "; ".join(f"{case.title} at {case.shape.intensity:.1f} operations a byte" for case in result.cases)
        found.append(Picture(picture, f"Roofline: TFLOP/s of every kernel under the measured ceilings. {shown}."))
    return [*found, *ceilings_parts(ceilings, no_ceilings), _under_the_roof(result, ceilings)]


def ceilings_parts(ceilings: Optional[Dict[str, float]], why_not: Optional[str]) -> List[Part]:
    """What the device can do at most, or why that was not measured."""
    if not ceilings:
        return [Missing(f"No ceilings: they were not measured: {why_not}.")]
    rows = [[ceiling(name), (value, three_digits(value))] for name, value in ceilings.items()]
    return [table("Ceilings", ["ceiling", ">measured"], rows)]


def _under_the_roof(result: Result, ceilings: Dict[str, float]) -> Table:
    columns = ["layer", "kernel", ">operations a byte", ">TFLOP/s", ">% of the roof"]
    rows = []
    for case in result.cases:
        at = case.shape.intensity
        highest = roof(at, ceilings)
        for row in case.rows:
            if row.tflop_s:
                percent = 100 * row.tflop_s / highest if highest else None
                figures = number(at, ".2f"), number(row.tflop_s, ".4f"), number(percent, ".1f")
                rows.append([case.name, row.name, *figures])
    return table("Kernels and peers under the roof", columns, rows)
