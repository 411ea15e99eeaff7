"""`fashion-infer bench net`."""

import click

from ...errors import CheckFailed
from .. import options
from ..groups import Command
from . import given, streams


@click.command(
    "net",
    cls=Command,
    examples=("bench net --against none --batch 1,100", "bench net --edition fa2019 --markdown networks.md"),
)
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
def command(editions, backend, device, against, batch, repeat, images, as_json, plot, markdown):
    """Check the whole fused network against float64, then time it by batch size; exit 1 when it is wrong.

    With --device all: one GPU beside all of them, on a stream of images in batches of --batch [default: 100000].
    """
    if device == "all":
        others = {"against": against, "plot": plot, "backend": backend if backend == "cpu" else None}
        given.refuse(others, "--device all times one GPU beside all: it does not take")
        return streams.measure(editions, given.numbers("--batch", batch), repeat, images, as_json, markdown)
    given.refuse({"images": images}, "only with --device all:")
    from ... import devices
    from ...bench import network as measure
    from ...present import files
    from ...present.bench import common, network
    from ...present.charts import throughput as chart
    from ...present.render import terminal

    files.check(as_json, markdown, pictures=[plot])
    batches = given.numbers("--batch", batch) or measure.BATCHES
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
