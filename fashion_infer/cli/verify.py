"""The command `fashion-infer verify`."""

import click

from ..errors import CheckFailed
from ..kernel_files import paths
from ..present.render import terminal
from . import options, running
from .groups import ExampleCommand

_BACKEND = options.of_request("backend", help="Where to run; auto is the CPU and, if there is one, the GPU.")


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
    click.option("--model", "models", metavar="NAME", multiple=True, help="Model; may be repeated [default: all]."),
    _BACKEND,
    options.device,
    options.threads,
    *options.KERNEL,
    *options.DATA,
    options.as_json,
)
def command(request, models, as_json):
    """Run every model with each N for which the correctness is known, in both modes; exit 1 if a result differs.

    With --kernel, that kernel computes the convolutions of every model, in operator mode.
    """
    from .. import verification
    from ..present import run as present
    from ..present.render.progress import ProgressBar

    with ProgressBar("verify", lines=True, results=True) as bar:
        checks = verification.verify(models, request, lambda share, found: bar.tick(share, present.checks_line(found)))
    wrong = [c for c in checks if not c.ok]
    if as_json:
        terminal.show_json({"ok": not wrong, "checks": [{**c._asdict(), "ok": c.ok} for c in checks]})
    else:
        terminal.show([present.checks(checks)])
    running.notice_synthetic(checks[0].source, request.data)
    if wrong and paths.is_path(request.kernel):
        terminal.notice(f"`fashion-infer kernel check {request.kernel}` says what is wrong with the file")
    if wrong:
        raise CheckFailed(f"{len(wrong)} of {len(checks)} checks failed")
    if not as_json:
        terminal.say(f"{len(checks)} checks passed")
