"""`fashion-infer verify`."""

import click

from ...errors import CheckFailed
from ...kernel_files import paths
from .. import options
from ..groups import ExampleCommand


@click.command(
    "verify",
    cls=ExampleCommand,
    examples=(
        "verify",
        "verify --model ece408-high --backend cpu",
        "kernel new --format c-cpu > conv.cpp",
        "verify --kernel ./conv.cpp",
    ),
)
@options.takes_request(
    click.option("--model", "models", metavar="NAME", multiple=True, help="Only this model; may be repeated."),
    *options.DEVICE,
    *options.KERNEL,
    *options.DATA,
)
def command(request, models):
    """Run every model at every n with a known correctness, in both modes; exit 1 on any difference.

    With --kernel the convolutions of every model go through that kernel, in operator mode.
    """
    from ... import verification
    from ...present import verify as present
    from ...present.render import terminal
    from ...present.render.progress import ProgressBar

    with ProgressBar("verify", lines=True, results=True) as bar:
        checks = verification.verify(models, request, lambda share, found: bar.tick(share, present.line(found)))
    terminal.show([present.checks(checks)])
    if checks[0].source == "synthetic" and request.data != "synthetic":
        terminal.notice("Fashion-MNIST was not found: verified on the built-in synthetic set")
    wrong = [c for c in checks if not c.ok]
    if wrong and paths.is_path(request.kernel):
        terminal.notice(f"`fashion-infer kernel check {request.kernel}` says what is wrong with the file")
    if wrong:
        raise CheckFailed(f"{len(wrong)} of {len(checks)} checks failed")
    click.echo(f"{len(checks)} checks passed")
