"""The charts of the benchmarks: times of kernels and peers, throughput of networks."""

from ...bench.records import FILL, LIMIT, OURS, STAGE, WHERE, BenchResult
from ..content import three_digits
from . import figure as figures

_COLUMNS = 3  # number of columns of small charts
_ROOM = 14  # number of labels that fit above each other


@figures.themed
def draw_convolutions(path: str, result: BenchResult) -> None:
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
        _dots(axes, case, rows, names)
    _legend(figure, result)
    figures.save(figure, path)


def _dots(axes, case, rows, names):
    fill = next((row.median_ms for row in case.rows if row.name == FILL), None)
    if fill is not None:
        axes.axvline(fill, color=figures.LIGHT["limit"], linestyle="--", linewidth=1)
    axes.hlines(range(len(names)), *axes.get_xlim(), color=figures.LIGHT["rule"], linewidth=0.5, zorder=0)
    for row in rows:
        place, colour = names.index(row.name), figures.colour(row, case.auto)
        axes.plot(row.median_ms, place, "o", color=colour, markersize=5)
        ms, weight = row.median_ms, "bold" if row.file or row.name == case.auto else None
        figures.label(
            axes, three_digits(ms), (ms, place), colour, (6, 0), textcoords="offset points", fontweight=weight
        )
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(axis="y", length=0, labelcolor=figures.LIGHT["ink"])
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.spines["left"].set_visible(False)
    shape = case.shape
    where = f"{shape.C} to {shape.M}, {shape.K}x{shape.K} on {shape.H}x{shape.W}, {shape.B:,} images"
    axes.set_title(f"{case.name}\n{where}", fontsize=8)


def _legend(figure, result):
    from matplotlib.lines import Line2D

    rows = [row for case in result.cases for row in case.rows]
    peers = any(row.kind not in (OURS, LIMIT) for row in rows)
    entries = [("yours", "your kernel", "o", "")] if any(row.file for row in rows) else []
    entries += [("auto", "what auto runs", "o", ""), ("ours", "other kernels", "o", "")]
    entries += [("peer", "peers", "o", "")] if peers else []
    entries.append(("limit", "write floor", "", "--"))
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


@figures.themed
def draw_networks(path: str, result: BenchResult) -> None:
    """Draw a line for each contender relative to our network in float32, a diagram per network and place of images."""
    places = list(dict.fromkeys((case.edition, case.where) for case in result.cases if case.where != STAGE))
    columns = 1 if len(places) < 3 else 2
    rows = max(1, -(-len(places) // columns))
    figure, cells = figures.new(figures.WIDTH * columns, 2.6 * rows + 0.4, rows, columns)
    found = [_ratios([case for case in result.cases if (case.edition, case.where) == place]) for place in places]
    values = [ratio for lines in found for _, line in lines.values() for _, ratio in line]
    low, high = min([*values, 0.5]) / 1.3, max([*values, 1.0]) * 1.4
    for axes in cells[len(places) :]:
        axes.set_visible(False)
    for axes, (edition, where), lines in zip(cells, places, found):
        _lines(axes, lines, result.batches, low, high)
        axes.set_title(f"{edition}, {WHERE[where]}", fontsize=8)
    title = f"{result.device['name']}: images a second, as a ratio to ours"
    figure.suptitle(title, fontsize=9, fontweight="bold", ha="left", x=0.01)
    figures.save(figure, path)


def _ratios(cases):
    """Return each contender's kind and its points (batch, ratio), by name, for batches for which ours was timed too."""
    lines = {}
    for case in cases:
        ours = next((row.images_s for row in case.rows if row.kind == OURS), None)  # float32 comes first
        for row in case.rows if ours else ():
            if row.images_s:
                lines.setdefault(row.name, (row.kind, []))[1].append((case.batch, row.images_s / ours))
    return lines


def _lines(axes, lines, batches, low, high):
    first, last = min(batches), max(batches)
    span = max(10.0, last / first)
    figures.log_axis(axes, "x", first / span**0.04, last * span**0.55)  # space for the names in the right third
    figures.log_axis(axes, "y", low, high, " x", (1, 2, 5))
    axes.set_xticks(batches, [f"{batch:,}" for batch in batches])
    axes.set_xlabel("images in a batch", loc="left")
    axes.hlines(axes.get_yticks(), first, last, color=figures.LIGHT["rule"], linewidth=0.5, zorder=0)
    ends = sorted((line[-1][1], name, kind, line) for name, (kind, line) in lines.items())
    heights = figures.apart([end for end, *_ in ends], low, high, _ROOM)
    for (end, name, kind, line), height in zip(ends, heights):
        ours = name == next(iter(lines))
        colour = figures.LIGHT["auto" if ours else kind]
        style = {"linewidth": 2 if ours else 1.2, "marker": "o", "markersize": 4 if ours else 3}
        axes.plot([batch for batch, _ in line], [ratio for _, ratio in line], color=colour, **style)
        said = f"{name}: 1 x" if ours else f"{name} {end:.2g} x"
        arrow = {"arrowstyle": "-", "lw": 0.4, "color": colour, "relpos": (0, 0.5), "shrinkA": 0, "shrinkB": 2}
        weight, place = "bold" if ours else None, (last * span**0.05, height)
        figures.label(axes, said, (line[-1][0], end), colour, place, fontweight=weight, arrowprops=arrow)
