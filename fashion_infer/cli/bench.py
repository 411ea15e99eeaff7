"""The commands `fashion-infer bench conv` and `bench net`."""

import json

import click

from ..bench import peers
from ..errors import CheckFailed, UsageError
from ..kernel_files import paths
from ..present.render import terminal
from . import options
from .groups import ExampleGroup
from .isolated_run import run_isolated


class Percentage(click.ParamType):
    """Type of a percentage, with or without a percent sign, which is converted to a fraction."""

    name = "percentage"

    def convert(self, value, param, ctx):
        return options.Number(min=0).convert(str(value).rstrip("%"), param, ctx) / 100


fail_above = click.option(
    "--fail-above",
    type=Percentage(),
    metavar="PERCENT",
    help="Exit 1 if one of our times is longer by more than this percentage (such as 5%) and by more than the "
    "noise, or if correctness differs.",
)
OUTPUTS = (
    *options.OUTPUTS,
    click.option("--save", metavar="NAME", help="Save the measurements under this name, in your data folder."),
    click.option("--against-saved", metavar="NAME", help="Compare with the measurements saved under this name."),
    fail_above,
)


@click.group(
    "bench",
    cls=ExampleGroup,
    following="fashion-infer bench conv --batch 100",
    examples=("bench conv --backend cpu --batch 100", "bench net --against none --batch 1,100"),
)
def command():
    """Time our kernels and networks next to other libraries."""


@command.command(
    "conv",
    examples=(
        "kernel new --format c-cpu > conv.cpp",
        "bench conv --backend cpu --batch 100 --kernels conv.cpp ladder",
        "bench conv --edition fa2020 --batch 99 --json > a.json",
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
    click.option("--warmup", type=int, default=1, show_default=True, help="Number of runs before the timed runs."),
    click.option(
        "--layers",
        type=click.Choice(["course", "others", "all"]),
        help="Time the layers of all editions (course), of other networks (others), or both (all), instead of "
        "--edition; each layer has its own number of images.",
    ),
    *OUTPUTS,
)
def conv(
    editions, backend, device, more, kernels, kernel_format, timeout, against, batch, repeat, warmup, layers, **outputs
):
    """Check each convolution kernel against float64, then time it; exit 1 if one is wrong."""
    if layers and editions:
        raise UsageError("--layers and --edition exclude each other: give only one of them")
    if more and not kernels:
        raise UsageError(f"unexpected argument {more[0]}: name kernels after --kernels")
    kernels = [*kernels, *more]
    run_isolated(kernels, timeout)
    from ..bench import user_kernels
    from ..bench.conv import Convolutions
    from ..present.charts import benchmarks as charts

    def make():
        options = {
            "editions": editions or ("fa2017",),
            "against": against,
            "batches": () if batch is None else (batch,),
            "repeat": repeat,
            "warmup": warmup,
            "layers": layers,
        }
        return Convolutions(user_kernels.requested(kernels, kernel_format, backend, device, **options))

    _run(make, charts.draw_convolutions, reads=paths.among(kernels), **outputs)


@command.command(
    "net", examples=("bench net --against none --batch 1,100", "bench net --edition fa2019 --markdown networks.md")
)
@options.takes(
    options.editions,
    options.backend,
    options.device,
    click.option(
        "--against",
        metavar="PEER,...",
        help=f"Libraries to compare with: {', '.join(peers.names(peers.NETWORK))}, or none "
        "[default: all that are installed].",
    ),
    click.option("--batch", metavar="N,...", multiple=True, help="Batch sizes; repeatable [default: 1,16,256,10000]."),
    click.option(
        "--repeat",
        type=int,
        help="Number of timed runs [default: 300 for batches of up to 16 images, 60 for up to 1000, else 20 on a GPU, "
        "12 on a CPU].",
    ),
    *OUTPUTS,
)
def net(editions, backend, device, against, batch, repeat, **outputs):
    """Check the whole fused network against float64, then time it for each batch size; exit 1 if it is wrong."""
    batches = _numbers("--batch", batch)
    from .. import devices
    from ..bench.network import Networks
    from ..bench.request import BenchRequest
    from ..present.charts import benchmarks as charts

    def make():
        where = devices.choose(backend, device, "fused").backend
        return Networks(BenchRequest(editions or ("fa2017",), where, device, against, batches, repeat))

    _run(make, charts.draw_networks, **outputs)


@command.command("saved", examples=("bench saved",))
def saved():
    """List the names of the saved measurements, oldest first."""
    from ..bench import history

    for file in history.saved():
        terminal.say(file.stem)


def _run(make, draw, as_json, as_csv, plot, markdown, save, against_saved, fail_above, reads=()):
    """Run a benchmark, show each completed case and the conclusions, and write the requested files.

    `make` makes the `bench.protocol.Benchmark` once all options have been checked; `draw(path, result)` writes the
    chart; `reads` are files that must not be overwritten. Raise CheckFailed for an incorrect or too slow kernel or
    network.
    """
    from ..bench import documents, history, verdicts
    from ..present import files
    from ..present.bench import pages
    from ..present.render.progress import ProgressBar

    if fail_above is not None and against_saved is None:
        raise UsageError("--fail-above compares with earlier measurements: give --against-saved NAME, too")
    files.check(as_csv, markdown, pictures=[plot], inputs=reads)
    before = documents.read(str(history.find(against_saved))) if against_saved else None
    saved = history.new(save) if save else None
    benchmark = make()
    show = (lambda parts: None) if as_json else terminal.show
    if before and before.kind != f"bench {benchmark.name}":
        raise UsageError(f"'{against_saved}' was saved by `{before.kind}`, and this is `bench {benchmark.name}`")
    with ProgressBar(f"bench {benchmark.name}") as bar:

        def shown(done):
            with bar.hidden():
                show(pages.done(done))

        result = benchmark.measure(shown, bar.tick)
    terminal.notice(pages.notice(result))
    if as_json:
        terminal.show_json(result.as_dict())
    if as_csv:
        files.write_csv(as_csv, result)
    if plot:
        draw(plot, result)
    if markdown:
        files.write_page(markdown, pages.page(result, markdown, plot, as_json))
    if saved:
        files.write_json(str(saved), result.as_dict())
    faults = []
    if before:
        now = documents.parse("this run", json.loads(json.dumps(result.as_dict())))
        compared = verdicts.compare_files(before, now, check=fail_above is not None)
        show(pages.comparison(compared))
        faults = compared.faults(fail_above) if fail_above is not None else []
    show(pages.closing(result))
    if result.wrong:
        raise CheckFailed(f"wrong: {', '.join(result.wrong)}")
    if faults:
        raise CheckFailed("; ".join(faults))


def _numbers(option, words):
    """Return the whole numbers of an option that may be repeated and takes a list with commas; UsageError otherwise."""
    try:
        return tuple(int(word) for part in words for word in part.split(","))
    except ValueError:
        raise UsageError(f"{option} takes whole numbers with commas between them, not {','.join(words)}") from None
