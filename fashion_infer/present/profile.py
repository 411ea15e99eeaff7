"""Output of `profile`, which shows where the time of a run is spent."""

from typing import Dict, List, Optional

from ..profiling import tables
from ..profiling.figures import Figures, Throughput, shares
from ..system.process import as_time_prints
from . import content
from .content import Missing, Output, Part, Table, Text, arithmetic, ceiling, number, percent, table, three_digits


def parts(
    figures: Figures, ceilings: Optional[Dict[str, float]], mode: str = "", backend: str = "gpu", timed: str = ""
) -> List[Part]:
    """Make all tables of a profile; `mode` is for a page with two, `timed` says how convolutions were timed."""
    of_mode = f", {mode} mode" if mode else ""
    kernels = tables.kernels(figures.tables[0])
    copies = len(kernels.rows) < len(figures.tables[0].rows)  # whether the first table also has copies
    shown = [(each.title, activities(each, of_mode)) for each in figures.tables]
    shown += [(each.title, _majority(each, of_mode)) for each in (*figures.tables, *([kernels] if copies else []))]
    found: List[Part] = []
    for title, each in shown:  # the tables of API calls are long and rarely needed
        found.append(content.Folded(each.caption, [each]) if title == "API calls" else each)
    if figures.usage:
        end = "up to the end of the profiled passes, as /usr/bin/time prints it:"
        found += [Text(f"The program{of_mode}, {end}"), Output(as_time_prints(figures.usage))]
        found += _convolutions(figures, ceilings, of_mode, backend, timed)
    return found


def activities(found: tables.ProfileTable, of_mode: str = "") -> Table:
    columns = [">Time(%)", ">Time", ">Calls", ">Avg", ">Min", ">Max", "Name"]
    rows = []
    for row in found.rows:
        time, *others = [(ns, tables.duration(ns)) for ns in (row.time, row.avg, row.min, row.max)]
        rows.append([percent(row.share, 2), time, row.calls, *others, row.name])
    return table(f"{found.title}{of_mode}", columns, rows, listing=True)


def _majority(found: tables.ProfileTable, of_mode: str) -> Table:
    rows, reached = [], 0.0
    for row in tables.majority(found):
        reached += row.share
        rows.append([percent(row.share, 2), percent(reached, 2), row.name])
    return table(
        f"90% of the time of the {found.title}{of_mode}", [">Time(%)", ">Together", "Name"], rows, listing=True
    )


def _convolutions(
    figures: Figures, ceilings: Optional[Dict[str, float]], of_mode: str, backend: str = "gpu", timed: str = ""
) -> List[Part]:
    if not figures.throughput:
        return [Text("Convolutions: none, because the profiler does not know the sizes of MXNet's own convolutions")]
    columns = ["layer", "kernel", ">op time, ms", ">GB/s", ">of fill", f">{arithmetic(backend)[0]}", ">of FP32"]
    rows = [_row(each, ceilings, backend) for each in figures.throughput]
    passes = f"Medians of {figures.passes} passes without the profiler. " if figures.passes else ""
    counted = "Input, weights and output are each moved once; a multiply-add is two operations."
    return [
        table(f"Convolutions{of_mode}", columns, rows),
        Text((timed or passes) + counted),
        *_above(figures, ceilings, backend),
    ]


def _above(figures: Figures, ceilings: Optional[Dict[str, float]], backend: str) -> List[Part]:
    """Name the layers that are above a ceiling, and say why: a ceiling is only the rate that one program reached."""
    reasons = (
        (
            "of fill",
            "the ceiling is that of memory, and part of what the layer moves stays in the caches, or is never stored "
            "between fused layers",
        ),
        (
            "of FP32",
            "a kernel on the tensor cores computes at their rate, not at float32's"
            if backend == "gpu"
            else "the ceiling is what NumPy's matrix product reached on this machine, not what the hardware can",
        ),
    )
    found: List[Part] = []
    for place, (name, reason) in enumerate(reasons):
        known = [(each.layer, shares(each.gb_s, each.tflop_s, ceilings)[place]) for each in figures.throughput]
        above = [layer for layer, share in known if share is not None and share > 1]
        if above:
            found.append(Text(f"No share {name} for {', '.join(above)}, which are above it: {reason}."))
    return found


def _row(found: Throughput, ceilings: Optional[Dict[str, float]], backend: str) -> List:
    known = shares(found.gb_s, found.tflop_s, ceilings)
    of_fill, of_fp32 = (percent(share) if share is None or share <= 1 else None for share in known)
    scale = arithmetic(backend)[1]
    rates = number(found.gb_s, ".1f"), of_fill, number(scale * found.tflop_s, ".3f" if scale == 1 else ".1f"), of_fp32
    return [found.layer, found.kernel, number(1e3 * found.seconds, ".3f"), *rates]


def ceilings(known: Optional[Dict[str, float]], why_not: Optional[str], backend: str) -> List[Part]:
    if not known:
        return [Missing(f"No ceilings measured: {why_not}.")]
    named = [ceiling(name, value, backend) for name, value in known.items()]
    rows = [[name, (value, three_digits(value))] for name, value in named]
    return [table("Ceilings", ["ceiling", ">measured"], rows)]
