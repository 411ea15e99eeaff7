"""`fashion-infer bench`."""

import click

from ..errors import CheckFailed, UsageError
from ..submissions import paths
from . import options
from .apart import apart


@click.group("bench")
def command():
    """Measure kernels and networks beside what a user could pick instead."""


@command.command("conv")
@options.takes(
    options.editions,
    options.backend,
    options.device,
    click.argument("more", nargs=-1, metavar="[KERNEL...]"),
    click.option(
        "--kernels",
        multiple=True,
        metavar="NAME,...",
        help="See `doctor`; files too, as in ./new-forward.cu; `ladder` for all of ours. May be repeated, and more may "
        "follow: --kernels a.cu b.cu ladder [default: ladder].",
    ),
    options.timeout,
    click.option("--against", metavar="PEER,...", help="cudnn, torch, mxnet, onnxruntime, none [default: all here]."),
    click.option("--batch", type=int, help="Images [default: 10000 on a GPU, 1000 on a CPU]."),
    click.option("--repeat", type=int, help="Timed runs [default: 20 on a GPU, 12 on a CPU]."),
    *options.OUTPUTS,
)
def conv(editions, backend, device, more, kernels, timeout, against, batch, repeat, as_json, plot, markdown):
    """Check every convolution kernel against float64, then time it; exit 1 when one is wrong."""
    if more and not kernels:
        raise UsageError(f"unexpected argument {more[0]}: kernels are named behind --kernels")
    kernels = [*kernels, *more]
    apart(kernels, timeout)
    from .. import devices
    from ..measure import conv as measure
    from ..present import benchmark, conv, files
    from ..present.charts import kernels as chart
    from ..present.render import terminal

    own = paths.among(kernels)
    files.check(as_json, markdown, pictures=[plot], inputs=own)
    backend = _backend_of(own, backend) if own else devices.choose(backend, device).backend
    named = ",".join(kernels) or "all"
    request = measure.Request(editions or ("fa2017",), backend, named, against, batch, repeat, device)
    measured = measure.measure(request, lambda case: terminal.show(conv.case(case, backend)))
    terminal.notice(benchmark.not_compared(measured))
    files.save_benchmark(measured, chart.draw, conv.page, as_json, plot, markdown)
    if measured.wrong:
        raise CheckFailed(f"wrong: {', '.join(measured.wrong)}")


@command.command("net")
@options.takes(
    options.editions,
    options.backend,
    options.device,
    click.option(
        "--against", metavar="PEER,...", help="torch, torch-compile, onnxruntime, mxnet, none [default: all here]."
    ),
    click.option("--batch", metavar="N,...", multiple=True, help="Images; may be repeated [default: 1,16,256,10000]."),
    click.option(
        "--repeat", type=int, help="Timed runs [default: 300 of small batches; of large 20 on a GPU, 12 on a CPU]."
    ),
    *options.OUTPUTS,
)
def net(editions, backend, device, against, batch, repeat, as_json, plot, markdown):
    """Check the whole fused network against float64, then time it by batch size; exit 1 when it is wrong."""
    from .. import devices
    from ..measure import network as measure
    from ..present import benchmark, files, network
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
    terminal.notice(benchmark.not_compared(measured))
    files.save_benchmark(measured, chart.draw, network.page, as_json, plot, markdown)
    if measured.wrong:
        raise CheckFailed(f"wrong: {', '.join(measured.wrong)}")


def _backend_of(files, backend):
    """The one backend that all files run on."""
    from ..submissions import loading

    found = {file: loading.backend_of(file, backend=backend) for file in files}
    if len(set(found.values())) > 1:
        raise UsageError(f"one benchmark is on one backend: {', '.join(' is for the '.join(f) for f in found.items())}")
    return found[files[0]]


def _numbers(option, words):
    """Whole numbers, given with commas between them or by repeating the option."""
    try:
        return [int(word) for part in words for word in part.split(",")]
    except ValueError:
        raise UsageError(f"{option} takes whole numbers with commas between them, not {','.join(words)}") from None
