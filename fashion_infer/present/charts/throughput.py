"""The benchmark of whole networks: images a second by batch size."""

from ...measure.records import OURS, STAGE, WHERE, Result
from . import figure as figures


def draw(path: str, result: Result) -> None:
    """Draw a line for ours and for each peer, in a cell for each network and place, as a PNG."""
    places = list(dict.fromkeys((case.edition, case.where) for case in result.cases if case.where != STAGE))
    rows = max(1, len(places))
    figure, cells = figures.new(8, 3.6 * rows + 0.4, rows)
    for axes, (edition, where) in zip(cells, places):
        cases = [case for case in result.cases if (case.edition, case.where) == (edition, where)]
        for name in dict.fromkeys(row.name for case in cases for row in case.rows):
            found = [(case.batch, row) for case in cases for row in case.rows if row.name == name and row.images_s]
            if found:
                ours = found[0][1].kind == OURS
                style = {"linewidth": 2.5, "marker": "o"} if ours else {"linewidth": 1, "marker": "."}
                axes.plot([batch for batch, _ in found], [row.images_s for _, row in found], label=name, **style)
                axes.legend(fontsize=8)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xticks(result.batches)
        axes.set_xticklabels([f"{batch:,}" for batch in result.batches])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
        axes.set_title(f"{edition}, {WHERE[where]}", fontsize=9)
        axes.set_xlabel("images in a batch")
        axes.set_ylabel("images a second")
    figure.suptitle(result.device["name"], fontsize=9)
    figures.save(figure, path)
