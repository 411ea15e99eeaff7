"""The command `fashion-infer report`."""

import click

from ..errors import CheckFailed
from ..present.render import terminal
from . import options
from .groups import ExampleCommand
from .isolated_run import run_isolated


@click.command(
    "report",
    cls=ExampleCommand,
    examples=(
        "report --out report --quick",
        ("report --out report --kernel ./new-forward.cu", "your kernel file, and a GPU"),
    ),
)
@options.takes(
    click.option("--out", required=True, metavar="DIR", help="Folder to write; replaces an earlier report there."),
    options.backend,
    options.device,
    click.option(
        "--kernel",
        "--kernels",
        "kernel",
        default="auto",
        metavar="NAME",
        help="Kernel name, or path of your kernel file, to use in the operator mode and to time with our kernels.",
    ),
    options.kernel_format,
    options.timeout,
    click.option("--model", metavar="NAME", help="Shipped model (see `models list`) [default: ece408-high]."),
    click.option("--n", type=int, help="Number of test images [default: 10000, or 2000 with --quick]."),
    *options.DATA,
    click.option("--quick", is_flag=True, help="Fewer repeats, smaller batches, and checks of at most two models."),
)
def command(out, timeout, **values):
    """Measure correctness and speed, and write the results as an HTML page and as Markdown; exit 1 if one is wrong."""
    run_isolated([values["kernel"]], timeout)
    from ..present.render.progress import ProgressBar
    from ..report import folder, gather

    request = gather.ReportRequest(**values)
    usual = f"this takes about {_duration(gather.estimate(request))}, while the machine is as busy as now"
    usual += "" if request.quick else f"; --quick about {_duration(gather.estimate(request.but(quick=True)))}"
    with ProgressBar("report", lines=True, estimate=usual) as bar:
        page, measured = folder.make(out, request, bar.tick)
    terminal.say(str(page))
    if measured.wrong:
        raise CheckFailed(f"wrong: {'; '.join(measured.wrong)}")


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} minutes"
