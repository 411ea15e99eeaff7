"""The command `fashion-infer bench conv`."""

import click

from ...bench import peers
from ...errors import UsageError
from ...kernel_files import paths
from .. import options
from ..groups import ExampleCommand
from ..isolated_run import run_isolated
from . import running


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
        help="Kernel names (see `doctor`), paths to kernel files, such as ./new-forward.cu, or `ladder` for all of our "
        "kernels; may be repeated, and further names may follow: --kernels a.cu b.cu ladder [default: ladder].",
    ),
    click.option(
        "--format",
        "kernel_format",
        metavar="NAME,...",
        help="Format of the kernel files: one for all files, or one per file in their order [default: recognised].",
    ),
    options.timeout,
    click.option(
        "--against",
        metavar="PEER,...",
        help=f"Libraries to compare with: {', '.join(peers.names(peers.CONVOLUTION))}, or none "
        "[default: all that are installed].",
    ),
    click.option("--batch", type=int, help="Number of images per call [default: 10000 on a GPU, 1000 on a CPU]."),
    click.option("--repeat", type=int, help="Number of timed runs [default: 20 on a GPU, 12 on a CPU]."),
    click.option(
        "--layers",
        type=click.Choice(["course", "others", "all"]),
        help="Time the layers of all editions (course), of other networks (others), or both (all), instead of "
        "--edition; each layer has its own number of images.",
    ),
    *running.OUTPUTS,
)
def command(
    editions, backend, device, more, kernels, kernel_format, timeout, against, batch, repeat, layers, **outputs
):
    """Check each convolution kernel against float64, then time it; exit 1 if one is wrong."""
    if layers and editions:
        raise UsageError("--layers and --edition exclude each other: give only one of them")
    if more and not kernels:
        raise UsageError(f"unexpected argument {more[0]}: name kernels after --kernels")
    kernels = [*kernels, *more]
    run_isolated(kernels, timeout)
    from ... import devices
    from ...bench import user_kernels
    from ...bench.conv import Convolutions
    from ...bench.request import BenchRequest
    from ...present.charts import benchmarks as charts

    own = paths.among(kernels)

    def make():
        files = user_kernels.recognise_files(own, kernel_format, backend)
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

    running.run(make, charts.draw_convolutions, reads=own, **outputs)
