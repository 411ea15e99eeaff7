"""`fashion-infer bench conv`."""

import click

from ...bench import peers
from ...errors import UsageError
from ...kernel_files import paths
from .. import options
from ..groups import ExampleCommand
from ..isolated_run import run_isolated
from . import running

GRID = (
    click.option("--grid", is_flag=True, help="Measure what auto runs on a sample of a grid of shapes."),
    click.option("--full", is_flag=True, help="Measure the whole grid."),
    click.option(
        "--batches", metavar="N,...", multiple=True, help="Batches of the grid [default: 1,100,largest; CPU 1,100]."
    ),
    click.option("--seed", type=int, help="Seed of the grid's sample and data [default: 1]."),
    click.option(
        "--seconds",
        type=options.Number(min=0, min_open=True),
        help="Stop starting new points of the grid after this many seconds.",
    ),
)


@click.command(
    "conv",
    cls=ExampleCommand,
    examples=(
        "kernel new --format c-cpu > conv.cpp",
        "bench conv --backend cpu --batch 100 --kernels conv.cpp ladder",
        "bench conv --edition fa2020 --batch 99 --json a.json",
        "bench conv --backend cpu --batch 100 --save before",
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
        help="Kernel names (see `doctor`) and paths to kernel files, as in ./new-forward.cu; `ladder` for all of ours. "
        "May be repeated, and more may follow: --kernels a.cu b.cu ladder [default: ladder].",
    ),
    click.option(
        "--format",
        "kernel_format",
        metavar="NAME,...",
        help="Force the kernel files' format: one for all of them, or one for each in their order.",
    ),
    options.timeout,
    click.option(
        "--against", metavar="PEER,...", help=f"{', '.join(peers.names(peers.CONVOLUTION))}, none [default: all here]."
    ),
    click.option("--batch", type=int, help="Images [default: 10000 on a GPU, 1000 on a CPU]."),
    click.option("--repeat", type=int, help="Timed runs [default: 20 on a GPU, 12 on a CPU]."),
    click.option(
        "--layers",
        type=click.Choice(["course", "others", "all"]),
        help="Measure the layers of all editions, of other networks, or both, in place of --edition; each has its own "
        "number of images.",
    ),
    *GRID,
    *running.OUTPUTS,
)
def command(editions, backend, device, more, kernels, kernel_format, timeout, against, batch, repeat, layers, **rest):
    """Check every convolution kernel against float64, then time it; exit 1 when one is wrong."""
    grid = {name: rest.pop(name) for name in ("grid", "full", "batches", "seed", "seconds")}
    if layers and editions:
        raise UsageError("--layers stands in place of --edition: give one of them")
    if grid.pop("grid"):
        others = {"edition": editions, "layers": layers, "kernels": kernels or more, "batch": batch, "repeat": repeat}
        running.refuse(others, "--grid has its own shapes and repeats, and runs auto: it does not take")
        return _grid(backend, device, against, grid, rest)
    running.refuse(grid, "only with --grid:")
    if more and not kernels:
        raise UsageError(f"unexpected argument {more[0]}: kernels are named behind --kernels")
    kernels = [*kernels, *more]
    run_isolated(kernels, timeout)
    from ... import devices
    from ...bench import user_kernels
    from ...bench.conv import Convolutions
    from ...bench.request import BenchRequest
    from ...present.charts import kernels as chart

    own = paths.among(kernels)

    def make():
        files = user_kernels.recognised(own, kernel_format, backend)
        where = files[0].backend if files else devices.choose(backend, device).backend
        asked = BenchRequest(
            editions=editions or ("fa2017",),
            backend=where,
            device=device,
            against=against,
            batches=() if batch is None else (batch,),
            repeat=repeat,
            kernels=",".join(kernels) or "all",
            files=files,
            formats=kernel_format,
            layers=layers,
        )
        return Convolutions(asked)

    running.run(make, chart.draw, reads=own, **rest)


def _grid(backend, device, against, grid, outputs):
    from ... import devices
    from ...bench.grid import Grid, parse_batches
    from ...bench.request import BenchRequest
    from ...present.charts import grid as chart

    batches, seed = parse_batches(grid["batches"]), 1 if grid["seed"] is None else grid["seed"]

    def make():
        where = devices.choose(backend, device).backend
        options = {"full": grid["full"], "seed": seed, "seconds": grid["seconds"]}
        return Grid(BenchRequest(backend=where, device=device, against=against, batches=batches, **options))

    running.run(make, chart.draw, **outputs)
