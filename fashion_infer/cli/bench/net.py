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
    options.devices,
    click.option(
        "--against",
        metavar="PEER,...",
        help=f"Libraries to compare with: {', '.join(peers.names(peers.NETWORK))}, or none "
        "[default: all that are installed].",
    ),
    click.option(
        "--batch",
        metavar="N,...",
        multiple=True,
        help="Batch sizes; may be repeated [default: 1,16,256,10000, or 100000 with --device all].",
    ),
    click.option(
        "--repeat",
        type=int,
        help="Number of timed runs [default: 300 for batches of up to 16 images, 60 for up to 1000, else 20 on a GPU, "
        "12 on a CPU].",
    ),
    click.option("--images", type=int, help="Total number of images, with --device all [default: 10000000]."),
    *running.OUTPUTS,
)
def command(editions, backend, device, against, batch, repeat, images, **outputs):
    """Check the whole fused network against float64, then time it for each batch size; exit 1 if it is wrong.

    With --device all, one GPU and all GPUs run alternately on a stream of images, in batches of --batch images.
    """
    batches = running.numbers("--batch", batch)
    several = device == "all"
    if several:
        others = {"against": against, "plot": outputs["plot"], "backend": backend if backend == "cpu" else None}
        others.update({"save": outputs["save"], "against-saved": outputs["against_saved"]})
        running.refuse(others, "--device all times one GPU and all of them: leave out")
    else:
        running.refuse({"images": images}, "add --device all, or leave out")
    from ... import devices
    from ...bench.network import Networks
    from ...bench.request import BenchRequest
    from ...bench.stream import Stream
    from ...present.charts import benchmarks as charts

    def make():
        request = BenchRequest(editions or ("fa2017",), against=against, batches=batches, repeat=repeat, images=images)
        if several:
            return Stream(request._replace(backend="gpu"))
        return Networks(request._replace(backend=devices.choose(backend, device, "fused").backend, device=device))

    running.run(make, charts.draw_networks, **outputs)
