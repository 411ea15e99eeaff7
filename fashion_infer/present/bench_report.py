"""The benchmark on the terminal: a table for each layer."""

import click

from ..measure.rows import COPYING, OK, Layer
from . import output


def header(result_backend: str) -> str:
    """The unit in which a backend's operations a second are given."""
    return "TFLOP/s" if result_backend == "gpu" else "GFLOP/s"


def rate(tflop_s, backend: str) -> str:
    """Operations a second in that unit, as text."""
    return "" if tflop_s is None else f"{tflop_s if backend == 'gpu' else 1e3 * tflop_s:.1f}"


def show(layer: Layer, backend: str) -> None:
    """Print a layer's table; kernels that do not take the layer are left out, wrong ones say so."""
    click.echo(f"\n{layer.title}, {layer.shape[0]} images")
    ratios = [f">x {peer}" for peer in layer.peers]
    made = output.table(
        "kernel", ">min ms", ">median ms", ">GB/s", f">{header(backend)}", ">% limit", *ratios, ">error"
    )
    for row in layer.rows:
        error = "" if row.error is None else f"{row.error:.1e}"
        if row.median_ms is None:
            if row.status != OK and row.status != "skipped":
                made.add_row(row.name, "", "WRONG", "", "", "", *("" for _ in ratios), error)
            continue
        percent = "" if row.percent_of_limit is None else f"{row.percent_of_limit:.1f}"
        times = ["" if p not in row.faster_than else f"{row.faster_than[p]:.2f}" for p in layer.peers]
        name = f"{row.name} (auto)" if row.name == layer.auto else f"{row.name} {row.layout}".rstrip()
        name = f"limit: {row.name}" if row.kind == COPYING else name
        cells = (f"{row.min_ms:.3f}", f"{row.median_ms:.3f}", f"{row.gb_s:.1f}", rate(row.tflop_s, backend), percent)
        made.add_row(name, *cells, *times, error)
    output.show(made)
    for row in layer.rows:
        if row.status == "wrong":
            click.echo(f"WRONG: {row.name}: {row.reason}")


def notices(result) -> None:
    """Say on stderr what was not compared with."""
    if result.not_compared:
        output.notice("not compared with " + ", ".join(f"{k} ({v})" for k, v in result.not_compared.items()))
