"""The chart of the benchmark of whole networks: each contender's throughput divided by ours, over the batch size."""

from ...bench.records import OURS, STAGE, WHERE, BenchResult
from . import figure as figures

_ROOM = 14  # number of labels that fit above each other


@figures.themed
def draw(path: str, result: BenchResult) -> None:
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
        _panel(axes, lines, result.batches, low, high)
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


def _panel(axes, lines, batches, low, high):
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
        axes.annotate(
            said,
            (line[-1][0], end),
            (last * span**0.05, height),
            color=colour,
            fontsize=figures.SMALL,
            va="center",
            fontweight="bold" if ours else None,
            arrowprops=arrow,
        )
