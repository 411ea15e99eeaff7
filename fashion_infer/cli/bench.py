"""`fashion-infer bench`."""

import click

from ..errors import CheckFailed, UsageError
from ..submissions import paths
from . import options
from .apart import apart
from .groups import Group


@click.group("bench", cls=Group, following="fashion-infer bench conv --batch 100")
def command():
    """Measure kernels and networks beside what a user could pick instead."""


GRID = (
    click.option("--grid", is_flag=True, help="What auto runs on a grid of shapes; a sample of it."),
    click.option("--full", is_flag=True, help="The whole grid."),
    click.option(
        "--batches", metavar="N,...", multiple=True, help="Of the grid [default: 1,100,largest; on a CPU 1,100]."
    ),
    click.option("--seed", type=int, help="Of the grid's sample and data [default: 1]."),
    click.option(
        "--seconds", type=click.FloatRange(min=0, min_open=True), help="Begin no point of the grid after this time."
    ),
)


@command.command("conv")
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
def conv(
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
        _refuse(others, "--grid has its own shapes and repeats, and runs auto: it does not take")
        return _grid(backend, device, against, as_json, plot, markdown, **grid)
    _refuse(grid, "only with --grid:")
    if more and not kernels:
        raise UsageError(f"unexpected argument {more[0]}: kernels are named behind --kernels")
    kernels = [*kernels, *more]
    apart(kernels, timeout)
    from .. import devices
    from ..measure import conv as measure
    from ..present import files
    from ..present.bench import common, conv
    from ..present.charts import kernels as chart
    from ..present.render import terminal

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


@command.command("net")
@options.takes(
    options.editions,
    options.backend,
    options.devices,
    click.option(
        "--against", metavar="PEER,...", help="torch, torch-compile, onnxruntime, mxnet, none [default: all here]."
    ),
    click.option("--batch", metavar="N,...", multiple=True, help="Images; may be repeated [default: 1,16,256,10000]."),
    click.option(
        "--repeat", type=int, help="Timed runs [default: 300 of small batches; of large 20 on a GPU, 12 on a CPU]."
    ),
    click.option("--images", type=int, help="With --device all: images in all [default: 10000000]."),
    *options.OUTPUTS,
)
def net(editions, backend, device, against, batch, repeat, images, as_json, plot, markdown):
    """Check the whole fused network against float64, then time it by batch size; exit 1 when it is wrong.

    With --device all: one GPU beside all of them, on a stream of images in batches of --batch [default: 100000].
    """
    if device == "all":
        given = {"against": against, "plot": plot, "backend": backend if backend == "cpu" else None}
        _refuse(given, "--device all times one GPU beside all: it does not take")
        return _stream(editions, _numbers("--batch", batch), repeat, images, as_json, markdown)
    _refuse({"images": images}, "only with --device all:")
    from .. import devices
    from ..measure import network as measure
    from ..present import files
    from ..present.bench import common, network
    from ..present.charts import throughput as chart
    from ..present.render import terminal

    files.check(as_json, markdown, pictures=[plot])
    batches = _numbers("--batch", batch) or measure.BATCHES
    backend = devices.choose(backend, device, "fused").backend
    request = measure.Request(editions or ("fa2017",), backend, against, batches, repeat, device)
    measured = measure.measure(
        request,
        checked=lambda check: terminal.show(network.check(check)),
        progress=lambda case: terminal.show(network.case(case)),
    )
    terminal.notice(common.notice(measured))
    files.save_benchmark(measured, chart.draw, network.page, as_json, plot, markdown)
    if measured.wrong:
        raise CheckFailed(f"wrong: {', '.join(measured.wrong)}")


def _grid(backend, device, against, as_json, plot, markdown, full, batches, seed, seconds):
    """`bench conv --grid`."""
    from .. import devices
    from ..measure.grid import measuring, points
    from ..present import files
    from ..present.bench import common, grid
    from ..present.charts import grid as chart
    from ..present.render import terminal

    files.check(as_json, markdown, pictures=[plot])
    batches = points.parse_batches(batches) or None
    backend = devices.choose(backend, device).backend
    request = measuring.Request(backend, device, batches, full, 1 if seed is None else seed, against, seconds)
    measured = measuring.measure(request, lambda *done: terminal.show(grid.progress(*done)))
    terminal.show(grid.summary(measured))
    terminal.notice(common.notice(measured))
    files.save_benchmark(measured, chart.draw, grid.page, as_json, plot, markdown)
    if measured.wrong:
        raise CheckFailed(f"wrong: {', '.join(measured.wrong)}")


def _stream(editions, batches, repeat, images, as_json, markdown):
    """`bench net --device all`."""
    from ..measure import stream as measure
    from ..present import files
    from ..present.bench import stream
    from ..present.render import terminal

    if len(editions) > 1 or len(batches) > 1:
        raise UsageError("--device all measures one edition with one --batch")
    files.check(as_json, markdown)
    usual = measure.Request()
    request = measure.Request(
        editions[0] if editions else usual.edition,
        usual.images if images is None else images,
        batches[0] if batches else usual.batch,
        usual.repeat if repeat is None else repeat,
    )
    measured = measure.measure(request, lambda passes: terminal.show(stream.progress(passes)))
    terminal.show(stream.parts(measured))
    files.save_benchmark(measured, None, stream.page, as_json, None, markdown)
    if measured.wrong:
        raise CheckFailed(f"wrong: {measured.reason}")


def _refuse(given, why):
    """UsageError when any of these options is given."""
    found = [f"--{name}" for name, value in given.items() if value or (value == 0 and value is not False)]
    if found:
        raise UsageError(f"{why} {', '.join(found)}")


def _formats(files, names):
    """The format that each file is said to have."""
    if names is None:
        return [None] * len(files)
    from ..submissions import formats

    return formats.insisted(files, names)


def _backend_of(files, formats, backend):
    """The one backend that all files run on."""
    from ..submissions import loading

    found = {file: loading.backend_of(file, format, backend) for file, format in zip(files, formats)}
    if len(set(found.values())) > 1:
        said = ", ".join(f"{file} is for the {where.upper()}" for file, where in found.items())
        raise UsageError(f"one benchmark is on one backend: {said}")
    return found[files[0]]


def _numbers(option, words):
    """Whole numbers, given with commas between them or by repeating the option."""
    try:
        return [int(word) for part in words for word in part.split(",")]
    except ValueError:
        raise UsageError(f"{option} takes whole numbers with commas between them, not {','.join(words)}") from None
