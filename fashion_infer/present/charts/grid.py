"""The chart of the grid of convolutions: a heat map for each peer and batch size, with one cell per shape."""

import numpy as np

from ...bench import grid as points
from ...bench.grid import GridResult
from ...bench.standings import standings
from . import figure as figures

_MOST = 3.0  # end of the colour scale, as a logarithm to base 2: 8 times faster or slower than the peer


@figures.themed
def draw(path: str, result: GridResult) -> None:
    """Draw how many times faster our kernels are than each peer: blue where they are faster, red where slower."""
    found = {standing.peer: standing.ratios for standing in standings(result)}
    groups = list(dict.fromkeys(case.edition for case in result.cases))
    figure, cells = figures.new(4.2 * max(1, len(groups)), 6.2 * max(1, len(found)), len(found) or 1, len(groups) or 1)
    mesh = None
    for axes, (peer, group) in zip(cells, [(peer, group) for peer in found for group in groups]):
        mesh = _map(axes, [ratio for ratio in found[peer] if ratio.case.edition == group])
        axes.set_title(f"against {peer}, {group.partition(', ')[2]}", fontsize=8)
    if mesh is not None:
        bar = figure.colorbar(mesh, ax=list(cells), shrink=0.5, ticks=range(-int(_MOST), int(_MOST) + 1))
        bar.ax.set_yticklabels([f"{2.0**power:g} x" for power in range(-int(_MOST), int(_MOST) + 1)])
    figure.suptitle(f"{result.device['name']}: times faster than the peer; grey: not measured", fontsize=9)
    figures.save(figure, path)


def _map(axes, found):
    """Draw a heat map of ratios: columns are kernel and image sizes, rows are channels and filters."""
    columns = [(side, size) for side in points.KERNEL_SIDES for size in points.IMAGE_SIDES]
    rows = [(channels, filters) for channels in points.CHANNELS for filters in points.FILTERS]
    values = np.full((len(rows), len(columns)), np.nan)
    for ratio in found:
        shape = ratio.case.shape
        values[rows.index((shape.C, shape.M)), columns.index((shape.K, shape.H))] = np.log2(ratio.value)
    axes.set_facecolor(figures.LIGHT["rule"])
    mesh = axes.pcolormesh(np.ma.masked_invalid(values), cmap="RdBu", vmin=-_MOST, vmax=_MOST, linewidth=0)
    axes.invert_yaxis()
    axes.set_xticks(np.arange(len(columns)) + 0.5)
    axes.set_xticklabels([f"{side}x{side}, {size}" for side, size in columns], rotation=90, fontsize=5)
    axes.set_yticks(np.arange(len(rows)) + 0.5)
    axes.set_yticklabels([f"{channels} to {filters}" for channels, filters in rows], fontsize=5)
    axes.set_xlabel("kernel, side of the image", fontsize=7)
    axes.set_ylabel("channels to filters", fontsize=7)
    return mesh
