"""The benchmark of convolutions: a bar a kernel and peer."""

from ...measure.records import FILL, LIMIT, Result
from . import figure as figures


def draw(path: str, result: Result) -> None:
    """Draw the median times of every convolution's kernels and peers as bars, and the limit as a line, as a PNG."""
    timed = [[row for row in case.rows if row.timed and row.kind != LIMIT] for case in result.cases]
    height = sum(0.25 * len(rows) + 1.0 for rows in timed) + 0.6
    figure, cells = figures.new(9, height, len(timed))
    for axes, case, rows in zip(cells, result.cases, timed):
        colours = [figures.colour(row, case.auto) for row in rows]
        bars = axes.barh(range(len(rows)), [row.median_ms for row in rows], color=colours)
        axes.bar_label(bars, [f"{row.median_ms:.3g}" for row in rows], padding=3, fontsize=8)
        axes.axvline(next(row.median_ms for row in case.rows if row.name == FILL), color="black", linestyle="--")
        axes.set_yticks(range(len(rows)))
        axes.set_yticklabels([row.title for row in rows], fontsize=8)
        axes.invert_yaxis()
        axes.set_xscale("log")
        axes.margins(x=0.1)
        axes.set_title(case.title, fontsize=9)
        axes.set_xlabel("median, ms")
    title = f"{result.device['name']}; orange: auto, gray: peers, dashed: writing the output"
    figure.suptitle(title, fontsize=9)
    figures.save(figure, path)
