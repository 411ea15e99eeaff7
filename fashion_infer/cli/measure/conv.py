"""`fashion-infer bench conv`."""

import click

from ...errors import CheckFailed, UsageError
from ...kernel_files import paths
from .. import options
from ..groups import Command
from ..isolated_run import run_isolated
from . import given, grids

GRID = (
    click.option("--grid", is_flag=True, help="What auto runs on a grid of shapes; a sample of it."),
    click.option("--full", is_flag=True, help="The whole grid."),
    click.option(
        "--batches", metavar="N,...", multiple=True, help="Of the grid [default: 1,100,largest; on a CPU 1,100]."
    ),
    click.option("--seed", type=int, help="Of the grid's sample and data [default: 1]."),
    click.option(
        "--seconds", type=options.Number(min=0, min_open=True), help="Begin no point of the grid after this time."
    ),
)


@click.command(
    "conv",
    cls=Command,
    examples=(
        "bench conv --backend cpu --batch 100",
        "bench conv --kernels ./new-forward.cu ladder --against none",
        "bench conv --edition fa2020 --json layers.json --plot layers.svg",
    ),
)
@options.takes(
    options.editions,
    options.backend,
    options.device,
    click.argument("more", nargs=-1, metavar="[KERNEL...]"),
    click.option(
        "--kernels",
        "--kernel",
        "kernels",
        multiple=True,
        metavar="NAME,...",
        help="See `doctor`; files too, as in ./new-forward.cu; `ladder` for all of ours. May be repeated, and more may "
        "follow: --kernels a.cu b.cu ladder [default: ladder].",
    ),
    click.option(
        "--format",
        "kernel_format",
        metavar="NAME,...",
        help="The kernel files', to insist on one: one for all of them, or one for each in their order.",
    ),
    options.timeout,
    click.option("--against", metavar="PEER,...", help="cudnn, torch, mxnet, onnxruntime, none [default: all here]."),
    click.option("--batch", type=int, help="Images [default: 10000 on a GPU, 1000 on a CPU]."),
    click.option("--repeat", type=int, help="Timed runs [default: 20 on a GPU, 12 on a CPU]."),
    click.option(
        "--layers",
        type=click.Choice(["course", "others", "all"]),
        help="In place of editions: those of all editions, those of other networks, or both, each with images of its "
        "own.",
    ),
    *GRID,
    *options.OUTPUTS,
)
def command(
    editions,
    backend,
    device,
    more,
    kernels,
    kernel_format,
    timeout,
    against,
    batch,
    repeat,
    layers,
    as_json,
    plot,
    markdown,
    **grid,
):
    """Check every convolution kernel against float64, then time it; exit 1 when one is wrong."""
    if layers and editions:
        raise UsageError("--layers stands in place of --edition: give one of them")
    if grid.pop("grid"):
        others = {"edition": editions, "layers": layers, "kernels": kernels or more, "batch": batch, "repeat": repeat}
        given.refuse(others, "--grid has its own shapes and repeats, and runs auto: it does not take")
        return grids.measure(backend, device, against, as_json, plot, markdown, **grid)
    given.refuse(grid, "only with --grid:")
    if more and not kernels:
        raise UsageError(f"unexpected argument {more[0]}: kernels are named behind --kernels")
    kernels = [*kernels, *more]
    run_isolated(kernels, timeout)
    from ... import devices
    from ...bench import conv as measure
    from ...present import files
    from ...present.bench import common, conv
    from ...present.charts import kernels as chart
    from ...present.render import terminal

    own = paths.among(kernels)
    files.check(as_json, markdown, pictures=[plot], inputs=own)
    formats = _formats(own, kernel_format)
    backend = _backend_of(own, formats, backend) if own else devices.choose(backend, device).backend
    named = ",".join(kernels) or "all"
    request = measure.Request(
        editions or ("fa2017",), backend, named, against, batch, repeat, device, layers, kernel_format
    )
    measured = measure.measure(request, lambda case: terminal.show(conv.case(case, backend)))
    terminal.show(conv.overview(measured) if layers else [])
    terminal.notice(common.notice(measured))
    files.save_benchmark(measured, chart.draw, conv.page, as_json, plot, markdown)
    if measured.wrong:
        raise CheckFailed(f"wrong: {', '.join(measured.wrong)}")


def _formats(files, names):
    """The format that each file is said to have."""
    if names is None:
        return [None] * len(files)
    from ...kernel_files import formats

    return formats.insisted(files, names)


def _backend_of(files, formats, backend):
    """The one backend that all files run on."""
    from ...kernel_files.formats import recognise

    found = {file: recognise(file, format, backend).placed().backend for file, format in zip(files, formats)}
    if len(set(found.values())) > 1:
        said = ", ".join(f"{file} is for the {where.upper()}" for file, where in found.items())
        raise UsageError(f"one benchmark is on one backend: {said}")
    return found[files[0]]
