"""The report's section that compares kernels and peers with the device's ceilings."""

from typing import Dict, List, Optional

from ...bench.ceilings import roof
from ...bench.records import BenchCase, BenchResult
from ..content import Command, Missing, Part, Picture, Text, arithmetic, ceiling, number, table, three_digits

_HOW = (
    "Arithmetic intensity is a layer's number of operations divided by the bytes of its input, weights and output, "
    "each moved once: all kernels have the same intensity on a layer. A kernel above a ceiling of memory kept part of "
    "its data in the caches. The roof is the lower of two rates: the rate that the faster of fill and copy allows at "
    "that intensity, and the rate of the fastest matrix product. The points are the times of the ladder; the ceilings "
    "are those of the profile below."
)


def parts(
    result: BenchResult, ceilings: Dict[str, float], no_ceilings: str, commands: List[str], picture: Optional[str]
) -> List[Part]:
    """Make the roofline section. `no_ceilings` is the reason if `ceilings` could not be measured."""
    found: List[Part] = [Text(_HOW), *map(Command, commands)]
    if picture:
        shown = "; ".join(f"{case.title} at {case.shape.intensity:.1f} operations a byte" for case in result.cases)
        unit, _ = arithmetic(result.backend)
        found.append(Picture(picture, f"Roofline: {unit} of every kernel under the measured ceilings. {shown}."))
    return [*found, *ceilings_parts(ceilings, no_ceilings, result.backend), *_under_the_roof(result, ceilings)]


def ceilings_parts(ceilings: Optional[Dict[str, float]], why_not: Optional[str], backend: str) -> List[Part]:
    """Show the device's ceilings, or the reason why they were not measured."""
    if not ceilings:
        return [Missing(f"No ceilings measured: {why_not}.")]
    known = [ceiling(name, value, backend) for name, value in ceilings.items()]
    rows = [[name, (value, three_digits(value))] for name, value in known]
    return [table("Ceilings", ["ceiling", ">measured"], rows)]


def _under_the_roof(result: BenchResult, ceilings: Dict[str, float]) -> List[Part]:
    unit, scale = arithmetic(result.backend)
    columns = ["kernel", "layer", ">operations a byte", f">{unit}", ">% of the roof"]
    rows: List[List] = []
    reasons: List[Part] = []
    for case in result.cases:
        at = case.shape.intensity
        highest = roof(at, ceilings)
        above = []
        for row in case.rows:
            if row.tflop_s:
                percent = 100 * row.tflop_s / highest if highest else None
                rate = number(scale * row.tflop_s, ".4f" if scale == 1 else ".1f")
                above += [row.title] if percent and percent > 100 else []
                under = percent if percent is None or percent <= 100 else None
                rows.append([row.title, case.name, number(at, ".2f"), rate, number(under, ".1f")])
        reasons += [_why_above(case, above, ceilings)] if above else []
    return [table("Kernels and peers under the roof", columns, rows), *reasons]


def _why_above(case: BenchCase, above: List[str], ceilings: Dict[str, float]) -> Text:
    """Name the kernels that are above the roof, and say why this can happen: the roof is a measurement, too."""
    memory = roof(case.shape.intensity, {name: gb_s for name, gb_s in ceilings.items() if name.endswith("_gb_s")})
    bound_by_memory = memory is not None and memory == roof(case.shape.intensity, ceilings)
    moved = f"the layer moves {case.shape.bytes / 1e6:,.1f} MB"
    why = (
        f"here the roof is the rate of memory; {moved}, and the part that stays in the caches is not limited by it"
        if bound_by_memory
        else "here the roof is the rate of one library's matrix product, which may be below the hardware's limit"
    )
    return Text(f"No % of the roof for {', '.join(above)} on {case.name}, which are above it: {why}.")
