"""The roofline: every kernel and peer under the measured ceilings."""

from typing import Dict, List

import numpy as np

from ...measure.records import Result
from . import figure as figures


def ceiling(name: str) -> str:
    """A ceiling of `measure.ceilings` in words, with its unit."""
    for end, what, unit in (("_gb_s", "memory", "GB/s"), ("_tflop_s", "matrix product", "TFLOP/s")):
        if name.endswith(end):
            return f"{what}, {name[: -len(end)]}, {unit}"
    return name


def three_digits(value: float) -> str:
    """4650.3 as 4,650."""
    return f"{float(f'{value:.3g}'):,g}"


def draw(path: str, result: Result, ceilings: Dict[str, float]) -> None:
    """Draw TFLOP/s over arithmetic intensity, an axes for each convolution, as a PNG."""
    figure, cells = figures.new(8, 5 * len(result.cases) + 0.4, len(result.cases))
    top = max((value for name, value in ceilings.items() if name.endswith("_tflop_s")), default=np.inf)
    for axes, case in zip(cells, result.cases):
        _ceilings(axes, case.shape.intensity, ceilings, top)
        _points(axes, case, 0.0 if top == np.inf else top)
        axes.set_xscale("log")
        axes.set_yscale("log")
        if ceilings:
            axes.legend(fontsize=7, loc="upper left")
        axes.set_xlabel("arithmetic intensity, operations a byte")
        axes.set_ylabel("TFLOP/s")
        axes.set_title(case.title, fontsize=9)
    figure.suptitle(f"{result.device['name']}; orange: auto, gray: peers", fontsize=9)
    figures.save(figure, path)


def _ceilings(axes, intensity, ceilings, top):
    span = np.geomspace(intensity / 30, intensity * 30, 200)
    for (name, value), style in zip(ceilings.items(), ("-", "--", ":", "-.")):
        label = f"{ceiling(name)}: {three_digits(value)}"
        if name.endswith("_gb_s"):
            axes.plot(span, np.minimum(span * value / 1e3, top), style, color="black", lw=1, label=label)
        else:
            axes.axhline(value, color="gray", lw=1, ls=style, label=label)


def _points(axes, case, top):
    at = case.shape.intensity
    rows = sorted((row for row in case.rows if row.tflop_s), key=lambda row: row.tflop_s)
    for row, height in zip(rows, apart([row.tflop_s for row in rows], top)):
        colour = figures.colour(row, case.auto)
        axes.plot(at, row.tflop_s, "o", color=colour, ms=5)
        label = f"{row.title}: {row.tflop_s:.3g}"
        arrow = {"arrowstyle": "-", "lw": 0.4, "color": colour, "relpos": (0, 0.5)}
        axes.annotate(label, (at, row.tflop_s), (at * 2, height), fontsize=7, va="center", arrowprops=arrow)


def apart(values: List[float], top: float) -> List[float]:
    """Heights for the labels of ascending positive values, on a log axis that reaches to `top`.

    Each is at least a 32nd of the axis above the last: 9 of 300 points, for letters of 7.
    """
    heights: List[float] = []
    for value in values:
        step = (max(top, values[-1]) / values[0]) ** (1 / 32)
        heights.append(max(value, heights[-1] * step) if heights else value)
    return heights
