"""The benchmark as a page of the documentation, in Markdown."""

from pathlib import Path
from typing import Optional

from .._files import replacing
from ..errors import DataError
from .report import header, rate
from .rows import KERNEL, LIMIT, WRONG, Layer, Result

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


def write(path: str, result: Result, plot: Optional[str] = None, as_json: Optional[str] = None) -> None:
    """Write the page.

    Parameters
    ----------
    plot, as_json
        The chart's file, for the page to show, and the JSON's, where they were written: both beside the page.

    Raises
    ------
    DataError
        When the file cannot be written.
    """
    with replacing(path, DataError) as temporary:
        names = [file and Path(file).name for file in (path, plot, as_json)]
        Path(temporary).write_text(text(result, *names), encoding="utf-8")


def text(result: Result, name: str, plot: Optional[str] = None, as_json: Optional[str] = None) -> str:
    """The page; `name` is its own file name, without a folder like the others."""
    gpu = result.backend == "gpu"
    files = [f"--{option} {file}" for option, file in (("json", as_json), ("plot", plot)) if file]
    head = _HEAD.format(
        command=" ".join([result.command, *files, f"--markdown {name}"]),
        device=_device(result),
        versions="; ".join(f"{key}: {value}" for key, value in result.versions.items()),
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


def _device(result):
    d = result.device
    if result.backend == "gpu":
        capability = ".".join(map(str, d["capability"]))
        return (
            f"{d['name']} (compute capability {capability}, {d['multiprocessors']} multiprocessors, "
            f"{d['memory_total'] / 2**30:.0f} GiB), driver for CUDA {d['driver_version']}, "
            f"library built with CUDA {d['runtime_version']}"
        )
    return f"{d['name']}, {d['instructions']}, {d['threads']} threads"


def _layer(layer: Layer, backend: str) -> str:
    flops = header(backend)
    columns = ["step", "kernel", "idea", "ms", "GB/s", flops, "% of the limit"]
    columns += [f"times faster than {peer}" for peer in layer.peers] + ["error"]
    lines = [f"## {layer.title}", "", _line(columns), _line("---" if c in columns[1:3] else "--:" for c in columns)]
    for row in layer.rows:
        if row.kind == KERNEL:
            lines.append(_kernel(row, layer, backend))
        elif row.median_ms is not None:
            idea = {LIMIT: "the limit: writing the output", "copy": "copying the output"}.get(row.name, "peer")
            name = f"{row.name} {row.layout}".rstrip()
            lines.append(_line(["", f"*{name}*", idea, *_figures(row, layer, backend)]))
    return "\n".join([*lines, ""])


def _kernel(row, layer, backend):
    name = f"**{row.name}**" if row.name == layer.auto else row.name
    if row.median_ms is not None:
        return _line([row.step, name, row.summary, *_figures(row, layer, backend)])
    verdict = "WRONG" if row.status == WRONG else "does not take this layer"
    return _line([row.step, name, f"{row.summary} ({verdict})", *[""] * (5 + len(layer.peers))])


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


def _line(cells):
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"
