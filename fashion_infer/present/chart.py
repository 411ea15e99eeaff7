"""The benchmark as a bar chart."""

from ..measure.rows import KERNEL, LIMIT, Result
from . import plots

_COLOURS = {"kernel": "tab:blue", "auto": "tab:orange", "peer": "tab:gray"}


def draw(path: str, result: Result) -> None:
    """Draw every layer's kernels and peers as bars of their median time, and the limit as a line, as a PNG."""
    timed = [
        [row for row in layer.rows if row.median_ms is not None and row.kind != "limit"] for layer in result.layers
    ]
    height = sum(0.25 * len(rows) + 1.0 for rows in timed) + 0.6
    figure, cells = plots._figure(9, height, len(timed), 1)
    for axes, layer, rows in zip([cells] if len(timed) == 1 else cells, result.layers, timed):
        names = [f"{row.name} {row.layout}".rstrip() for row in rows]
        kinds = ["auto" if r.name == layer.auto else "kernel" if r.kind == KERNEL else "peer" for r in rows]
        bars = axes.barh(range(len(rows)), [row.median_ms for row in rows], color=[_COLOURS[kind] for kind in kinds])
        axes.bar_label(bars, [f"{row.median_ms:.3g}" for row in rows], padding=3, fontsize=8)
        axes.axvline(next(r.median_ms for r in layer.rows if r.name == LIMIT), color="black", linestyle="--")
        axes.set_yticks(range(len(rows)))
        axes.set_yticklabels(names, fontsize=8)
        axes.invert_yaxis()
        axes.set_xscale("log")
        axes.margins(x=0.1)
        axes.set_title(layer.title, fontsize=9)
        axes.set_xlabel("median, ms")
    figure.suptitle(
        f"{result.device['name']}, {result.batch} images; orange: auto, gray: peers, dashed: writing the output",
        fontsize=9,
    )
    plots._save(figure, path)
