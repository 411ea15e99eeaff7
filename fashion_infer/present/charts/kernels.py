"""The chart of the benchmark of convolutions (the ladder): a diagram per convolution, a dot per kernel and peer."""

from ...bench.records import FILL, LIMIT, OURS, BenchResult
from . import figure as figures

_COLUMNS = 3  # number of columns of small charts


@figures.themed
def draw(path: str, result: BenchResult) -> None:
    """Draw, for each convolution, the median times of kernels and peers as dots, and the write floor as a line."""
    timed = [[row for row in case.rows if row.timed and row.kind != LIMIT] for case in result.cases]
    names = list(dict.fromkeys(row.name for rows in timed for row in rows))
    columns = 1 if len(timed) < _COLUMNS else _COLUMNS
    lines = -(-len(timed) // columns)
    width = figures.WIDTH if columns == 1 else 10.0
    figure, cells = figures.new(width, lines * (0.19 * len(names) + 0.85) + 0.5, lines, columns, sharey=True)
    known = [row.median_ms for case in result.cases for row in case.rows if row.timed and row.name in (*names, FILL)]
    low, high = (min(known, default=1.0) / 1.5, max(known, default=1.0) * 3.5)  # space for a label after the last dot
    for axes in cells[len(timed) :]:
        axes.set_visible(False)
    for axes, case, rows in zip(cells, result.cases, timed):
        figures.log_axis(axes, "x", low, high, " ms")
        _panel(axes, case, rows, names)
    _key(figure, result)
    figures.save(figure, path)


def _panel(axes, case, rows, names):
    fill = next((row.median_ms for row in case.rows if row.name == FILL), None)
    if fill is not None:
        axes.axvline(fill, color=figures.LIGHT["limit"], linestyle="--", linewidth=1)
    axes.hlines(range(len(names)), *axes.get_xlim(), color=figures.LIGHT["rule"], linewidth=0.5, zorder=0)
    for row in rows:
        place, colour = names.index(row.name), figures.colour(row, case.auto)
        axes.plot(row.median_ms, place, "o", color=colour, markersize=5)
        label = {"color": colour, "fontsize": figures.SMALL, "fontweight": "bold" if row.name == case.auto else None}
        axes.annotate(
            f"{row.median_ms:.3g}", (row.median_ms, place), (6, 0), textcoords="offset points", va="center", **label
        )
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(axis="y", length=0, labelcolor=figures.LIGHT["ink"])
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.spines["left"].set_visible(False)
    shape = case.shape
    where = f"{shape.C} to {shape.M}, {shape.K}x{shape.K} on {shape.H}x{shape.W}, {shape.B:,} images"
    axes.set_title(f"{case.name}\n{where}", fontsize=8)


def _key(figure, result):
    from matplotlib.lines import Line2D

    peers = any(row.kind not in (OURS, LIMIT) for case in result.cases for row in case.rows)
    entries = [("auto", "what auto runs", "o", ""), ("ours", "other kernels", "o", "")]
    entries += [("peer", "peers", "o", "")] if peers else []
    entries.append(("limit", "the limit: writing the output", "", "--"))
    lines = [
        Line2D([], [], color=figures.LIGHT[kind], marker=mark, linestyle=style, linewidth=1, markersize=5, label=text)
        for kind, text, mark, style in entries
    ]
    figure.legend(
        handles=lines,
        loc="outside upper left",
        frameon=False,
        fontsize=figures.SMALL,
        ncols=len(lines),
        handlelength=1.2,
        columnspacing=1.0,
        handletextpad=0.4,
        title=f"{result.device['name']}, median of a batch",
        alignment="left",
        title_fontproperties={"size": 9, "weight": "bold"},
    )
