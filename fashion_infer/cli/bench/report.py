"""`fashion-infer report`."""

import click

from ...errors import CheckFailed
from .. import options
from ..groups import ExampleCommand
from ..isolated_run import run_isolated


@click.command(
    "report",
    cls=ExampleCommand,
    examples=(
        "report --out report --quick",
        ("report --out report --kernel ./new-forward.cu", "your kernel file, and a GPU"),
    ),
)
@options.takes(
    click.option("--out", required=True, metavar="DIR", help="Folder: new, empty, or a former report to replace."),
    options.backend,
    options.device,
    click.option(
        "--kernel",
        "--kernels",
        "kernel",
        metavar="NAME",
        help="Kernel name, or path to your kernel file, for the operator mode and the ladder.",
    ),
    options.kernel_format,
    options.timeout,
    click.option("--model", metavar="NAME", help="A shipped model, see `models list` [default: ece408-high]."),
    click.option("--n", type=int, help="Test images [default: 10000, with --quick 2000]."),
    *options.DATA,
    click.option("--quick", is_flag=True, help="Fewer repeats and smaller batches, the checks of two models only."),
)
def command(out, timeout, **values):
    """Measure everything, and write it as one HTML page and the same as Markdown; exit 1 when something is wrong."""
    run_isolated([values["kernel"]], timeout)
    from ...present.render import terminal
    from ...present.render.progress import ProgressBar
    from ...report import make
    from ...report.request import ReportRequest

    usual = "1 minute" if values["quick"] else "4 minutes; --quick about 1"
    with ProgressBar("report", lines=True, estimate=f"on two idle cores this takes about {usual}") as bar:
        page, measured = make.make(out, ReportRequest(**values), bar.tick)
    terminal.say(str(page))
    if measured.wrong:
        raise CheckFailed(f"wrong: {'; '.join(measured.wrong)}")
