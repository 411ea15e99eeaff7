"""The report's pictures, as PNG files; those of other commands are drawn by the same code as there."""

from pathlib import Path
from typing import Dict, List, Optional

import numpy as np

from ..measure.rows import KERNEL, Layer, Result
from ..reporting.gather import Measured
from . import chart, net_chart, plots

LADDER, ROOFLINE, NETWORK = "ladder.png", "roofline.png", "network.png"
CONFUSION, MISTAKES = "confusion.png", "mistakes.png"


def draw(folder: Path, measured: Measured) -> List[str]:
    """Draw all that there is something to draw of, into a folder; the names of the files."""
    made = [CONFUSION]
    if measured.bench:
        chart.draw(str(folder / LADDER), measured.bench)
        roofline(str(folder / ROOFLINE), measured.bench, measured.ceilings)
        made += [LADDER, ROOFLINE]
    if measured.network and measured.network.cases:  # of a network that is wrong nothing is timed
        net_chart.draw(str(folder / NETWORK), measured.network)
        made.append(NETWORK)
    result, names = measured.runs[1], measured.class_names
    title = f"{result.model}, correctness {result.correctness} on {result.n} images"
    plots.confusion(str(folder / CONFUSION), result.labels, result.predictions, names, title)
    wrong = result.predictions != result.labels
    if wrong.any():
        chosen = measured.images.images[wrong], result.predictions[wrong]
        plots.sheet(str(folder / MISTAKES), *chosen, names, f"mistakes of {title}", result.labels[wrong])
        made.append(MISTAKES)
    return made


def intensity(layer: Layer) -> float:
    """Operations a byte, when input, weights and output move once each."""
    batch, channels, height, width, filters, side = layer.shape
    outputs = batch * filters * (height - side + 1) * (width - side + 1)
    moved = 4 * (batch * channels * height * width + filters * channels * side**2 + outputs)
    return 2 * outputs * channels * side**2 / moved


def ceiling(name: str) -> str:
    """A ceiling of `profiling.ceilings.measure` in words, with its unit."""
    for end, unit in (("_gb_s", "GB/s"), ("_tflop_s", "TFLOP/s")):
        if name.endswith(end):
            what = name[: -len(end)]
            return f"memory, {what}, {unit}" if end == "_gb_s" else f"matrix product, {what}, {unit}"
    return name


def three_digits(value: float) -> str:
    """4650.3 as 4,650."""
    return f"{float(f'{value:.3g}'):,g}"


def roof(at: float, ceilings: Dict[str, float]) -> Optional[float]:
    """TFLOP/s that an arithmetic intensity allows: the lower of the best memory's and the best product's ceiling."""
    memory = [at * value / 1e3 for name, value in ceilings.items() if name.endswith("_gb_s")]
    flat = [value for name, value in ceilings.items() if name.endswith("_tflop_s")]
    return min([*([max(memory)] if memory else []), *([max(flat)] if flat else [])], default=None)


def roofline(path: str, result: Result, ceilings: Dict[str, float]) -> None:
    """Draw every kernel and peer under the measured ceilings, an axes for each layer, as a PNG."""
    figure, cells = plots._figure(8, 5 * len(result.layers) + 0.4, len(result.layers), 1)
    top = max((value for name, value in ceilings.items() if name.endswith("_tflop_s")), default=np.inf)
    for axes, layer in zip(np.ravel(cells), result.layers):
        at = intensity(layer)
        span = np.geomspace(at / 30, at * 30, 200)
        for (name, value), style in zip(ceilings.items(), ("-", "--", ":", "-.")):
            label = f"{ceiling(name)}: {three_digits(value)}"
            if name.endswith("_gb_s"):
                axes.plot(span, np.minimum(span * value / 1e3, top), style, color="black", lw=1, label=label)
            else:
                axes.axhline(value, color="gray", lw=1, ls=style, label=label)
        rows = sorted((row for row in layer.rows if row.tflop_s), key=lambda row: row.tflop_s)
        heights = _apart([row.tflop_s for row in rows], 0.0 if top == np.inf else top)
        for row, height in zip(rows, heights):
            colour = "tab:orange" if row.name == layer.auto else "tab:blue" if row.kind == KERNEL else "tab:gray"
            axes.plot(at, row.tflop_s, "o", color=colour, ms=5)
            label = f"{row.name} {row.layout}".rstrip() + f": {row.tflop_s:.3g}"
            arrow = {"arrowstyle": "-", "lw": 0.4, "color": colour, "relpos": (0, 0.5)}
            axes.annotate(label, (at, row.tflop_s), (at * 2, height), fontsize=7, va="center", arrowprops=arrow)
        axes.set_xscale("log")
        axes.set_yscale("log")
        if ceilings:
            axes.legend(fontsize=7, loc="upper left")
        axes.set_xlabel("arithmetic intensity, operations a byte")
        axes.set_ylabel("TFLOP/s")
        axes.set_title(layer.title, fontsize=9)
    figure.suptitle(f"{result.device['name']}, {result.batch} images; orange: auto, gray: peers", fontsize=9)
    plots._save(figure, path)


def _apart(values: List[float], top: float) -> List[float]:
    """Heights for the labels of ascending positive values, on a log axis that reaches to `top`.

    Each is at least a 32nd of the axis above the last: 9 of 300 points, for letters of 7.
    """
    heights: List[float] = []
    for value in values:
        step = (max(top, values[-1]) / values[0]) ** (1 / 32)
        heights.append(max(value, heights[-1] * step) if heights else value)
    return heights
