"""The command `fashion-infer bench net`."""

import click

from ...bench import peers
from .. import options
from ..groups import ExampleCommand
from . import running


@click.command(
    "net",
    cls=ExampleCommand,
    examples=("bench net --against none --batch 1,100", "bench net --edition fa2019 --markdown networks.md"),
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
    click.option(
        "--batch", metavar="N,...", multiple=True, help="Batch sizes; may be repeated [default: 1,16,256,10000]."
    ),
    click.option(
        "--repeat",
        type=int,
        help="Number of timed runs [default: 300 for batches of up to 16 images, 60 for up to 1000, else 20 on a GPU, "
        "12 on a CPU].",
    ),
    *running.OUTPUTS,
)
def command(editions, backend, device, against, batch, repeat, **outputs):
    """Check the whole fused network against float64, then time it for each batch size; exit 1 if it is wrong."""
    batches = running.numbers("--batch", batch)
    from ... import devices
    from ...bench.network import Networks
    from ...bench.request import BenchRequest
    from ...present.charts import benchmarks as charts

    def make():
        where = devices.choose(backend, device, "fused").backend
        return Networks(BenchRequest(editions or ("fa2017",), where, device, against, batches, repeat))

    running.run(make, charts.draw_networks, **outputs)
