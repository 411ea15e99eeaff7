"""The benchmark as a page of the documentation, in Markdown."""

from typing import Optional

from ..measure.rows import KERNEL, LIMIT, WRONG, Layer, Result
from .bench_report import header, rate
from .markdown import command, device, line, versions

_HEAD = """<!-- Written by the command below, which also drew the plot. Do not edit: run it again. -->
# The convolution kernels, measured

This page is written by `fashion-infer bench conv`, never by hand; in this folder:

    {command}

{device}. {versions}.

Random images, {batch:,} a batch, tensors {where}. Times are medians of at least {repeat} runs (three for what takes
longer than {slow}), every kernel taking turns with its peers. Each kernel was first compared with a convolution in
float64: "error" is the largest difference over the output's largest magnitude. GB/s counts input, weights and output,
each moved once. The limit is the time that it took in the same run to write the layer's output and do nothing else.
**Bold** is what `auto` runs.
"""


def text(result: Result, name: str, plot: Optional[str] = None, as_json: Optional[str] = None) -> str:
    """The page.

    Parameters
    ----------
    name, plot, as_json
        Names of the page's own file, of the chart that it shows and of the JSON, without folders: all lie beside it.
    """
    gpu = result.backend == "gpu"
    head = _HEAD.format(
        command=command(result.command, name, plot, as_json),
        device=device(result.device),
        versions=versions(result.versions),
        batch=result.batch,
        repeat=result.repeat,
        where="on the device, timed by its events" if gpu else "in memory that is used again",
        slow="8 ms" if gpu else "2 s",
    )
    parts = [head]
    if plot:
        parts.append(f"![Time of every kernel and peer, layer by layer]({plot})\n")
    parts += [_layer(layer, result.backend) for layer in result.layers]
    return "\n".join(parts)


def _layer(layer: Layer, backend: str) -> str:
    flops = header(backend)
    columns = ["step", "kernel", "idea", "ms", "GB/s", flops, "% of the limit"]
    columns += [f"times faster than {peer}" for peer in layer.peers] + ["error"]
    lines = [f"## {layer.title}", "", line(columns), line("---" if c in columns[1:3] else "--:" for c in columns)]
    for row in layer.rows:
        if row.kind == KERNEL:
            lines.append(_kernel(row, layer, backend))
        elif row.median_ms is not None:
            idea = {LIMIT: "the limit: writing the output", "copy": "copying the output"}.get(row.name, "peer")
            name = f"{row.name} {row.layout}".rstrip()
            lines.append(line(["", f"*{name}*", idea, *_figures(row, layer, backend)]))
    return "\n".join([*lines, ""])


def _kernel(row, layer, backend):
    name = f"**{row.name}**" if row.name == layer.auto else row.name
    if row.median_ms is not None:
        return line([row.step, name, row.summary, *_figures(row, layer, backend)])
    verdict = "WRONG" if row.status == WRONG else "does not take this layer"
    return line([row.step, name, f"{row.summary} ({verdict})", *[""] * (5 + len(layer.peers))])


def _figures(row, layer, backend):
    percent = "" if row.percent_of_limit is None else f"{row.percent_of_limit:.1f}"
    ratios = [f"{row.faster_than[p]:.2f}" if p in row.faster_than else "" for p in layer.peers]
    error = "" if row.error is None else f"{row.error:.1e}"
    return [
        f"{row.median_ms:.3f}",
        f"{row.gb_s:.{0 if backend == 'gpu' else 1}f}",
        rate(row.tflop_s, backend),
        percent,
        *ratios,
        error,
    ]
