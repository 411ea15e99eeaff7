"""`fashion-infer bench`."""

import click

from ..errors import CheckFailed, UsageError
from . import options


@click.group("bench")
def command():
    """Measure kernels and networks beside what a user could pick instead."""


@command.command("conv")
@options.takes(
    options.editions,
    options.backend,
    options.device,
    click.option("--kernels", default="all", show_default=True, metavar="NAME,...", help="See `doctor`."),
    click.option("--against", metavar="PEER,...", help="cudnn, torch, mxnet, onnxruntime, none [default: all here]."),
    click.option("--batch", type=int, help="Images [default: 10000 on a GPU, 1000 on a CPU]."),
    click.option("--repeat", type=int, help="Timed runs [default: 20 on a GPU, 12 on a CPU]."),
    *options.OUTPUTS,
)
def conv(editions, backend, device, kernels, against, batch, repeat, as_json, plot, markdown):
    """Check every convolution kernel against float64, then time it; exit 1 when one is wrong."""
    from .. import devices
    from ..measure import conv as measure
    from ..present import benchmark, conv, files
    from ..present.charts import kernels as chart
    from ..present.render import terminal

    files.check(as_json, markdown, plot=plot)
    backend = devices.choose(backend, device).backend
    request = measure.Request(editions or ("fa2017",), backend, kernels, against, batch, repeat, device)
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

    files.check(as_json, markdown, plot=plot)
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


def _numbers(option, words):
    """Whole numbers, given with commas between them or by repeating the option."""
    try:
        return [int(word) for part in words for word in part.split(",")]
    except ValueError:
        raise UsageError(f"{option} takes whole numbers with commas between them, not {','.join(words)}") from None
