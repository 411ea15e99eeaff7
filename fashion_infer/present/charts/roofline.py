"""The roofline chart: every kernel and peer under the measured ceilings."""

import math
from typing import Dict

from ...bench.records import BenchResult
from ..content import arithmetic, three_digits
from . import figure as figures

_ROOM = 24  # number of labels that fit above each other


@figures.themed
def draw(path: str, result: BenchResult, ceilings: Dict[str, float]) -> None:
    """Draw TFLOP/s (GFLOP/s for a CPU) over arithmetic intensity, in a separate diagram for each convolution."""
    figure, cells = figures.new(figures.WIDTH, 3.9 * len(result.cases) + 0.3, len(result.cases))
    for axes, case in zip(cells, result.cases):
        _panel(axes, case, ceilings, *arithmetic(result.backend))
    figure.suptitle(
        f"{result.device['name']}, under its measured ceilings", fontsize=9, fontweight="bold", ha="left", x=0.01
    )
    figures.save(figure, path)


def _panel(axes, case, ceilings, name, scale):
    at = case.shape.intensity
    rows = sorted((row for row in case.rows if row.tflop_s), key=lambda row: row.tflop_s)
    memory = {key[:-5]: value for key, value in ceilings.items() if key.endswith("_gb_s")}
    flat = {key[:-8]: scale * value for key, value in ceilings.items() if key.endswith("_tflop_s")}
    top = max(flat.values(), default=None)
    slopes = {what: scale * value / 1e3 for what, value in memory.items()}
    ridges = [top / slope for slope in slopes.values()] if top else []
    rates = [scale * row.tflop_s for row in rows]
    most = max([*rates, *flat.values()], default=1.0)
    left, right = min([at, *ridges]) / 8, max([60 * at, *(25 * ridge for ridge in ridges)])
    low, high = min([*rates, most / 30]) / 5, most * 2.2  # space for the ridge's name below the points
    figures.log_axis(axes, "x", left, right)
    figures.log_axis(axes, "y", low, high)
    _ceilings(axes, memory, slopes, flat, at)
    if ridges:
        _ridge(axes, min(ridges), top, at)
    for row, rate, height in zip(rows, rates, figures.apart(rates, low, high, _ROOM)):
        colour = figures.colour(row, case.auto)
        axes.plot(at, rate, "o", color=colour, markersize=5)
        arrow = {"arrowstyle": "-", "lw": 0.5, "color": colour, "relpos": (0, 0.5), "shrinkB": 3}
        box = {"facecolor": figures.LIGHT["paper"], "edgecolor": "none", "pad": 0.5}
        said = f"{row.title}: {three_digits(rate)}"
        figures.label(axes, said, (at, rate), colour, (at * 1.5, height), arrowprops=arrow, bbox=box)
    axes.set_xlabel("arithmetic intensity, operations a byte")
    axes.set_ylabel(name)
    axes.set_title(case.title, fontsize=8)


def _ceilings(axes, memory, slopes, flat, at):
    """Draw each ceiling as a line with its name on it. A legend would cover the knee, the most important part."""
    faint = figures.LIGHT["faint"]
    (left, right), (low, _) = axes.get_xlim(), axes.get_ylim()
    top = max(flat.values(), default=None)
    for (what, slope), style in zip(slopes.items(), ("-", "--", ":")):
        end = min(right, top / slope) if top else right
        axes.plot([left, end], [left * slope, end * slope], style, color=faint, lw=1)
        # Put the name in the middle of the visible slope to the left of the points, at the angle of the line.
        begin = max(left, low / slope)
        x = (begin * min(end, at)) ** 0.5
        side, y = ("bottom", 1.1 * x * slope) if slope == max(slopes.values()) else ("top", x * slope / 1.1)
        angle = {"rotation": math.degrees(math.atan2(slope, 1.0)), "rotation_mode": "anchor"}
        said = f"{what} {three_digits(memory[what])} GB/s"
        figures.label(axes, said, (x, y), faint, ha="center", va=side, transform_rotates_text=True, **angle)
    for what, value in flat.items():
        start = min((value / slope for slope in slopes.values()), default=left)
        axes.plot([max(left, start), right], [value, value], "-" if value == top else "--", color=faint, lw=1)
        said = f"{what} product: {three_digits(value)}"
        figures.label(axes, said, (right, 1.04 * value), faint, ha="right", va="bottom")


def _ridge(axes, ridge, top, at):
    low = axes.get_ylim()[0]
    axes.vlines(ridge, low, top, color=figures.LIGHT["limit"], linestyle=":", linewidth=1)
    side = -1 if at >= ridge else 1  # away from the points
    place = {"va": "baseline", "ha": "right" if side < 0 else "left", "textcoords": "offset points"}
    said = f"ridge: {three_digits(ridge)}\noperations a byte"
    figures.label(axes, said, (ridge, low), figures.LIGHT["limit"], (4 * side, 4), **place)
