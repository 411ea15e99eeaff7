"""`fashion-infer kernel`."""

import click

from ...errors import CheckFailed
from .. import options
from ..groups import ExampleGroup


@click.group(
    "kernel",
    cls=ExampleGroup,
    following="fashion-infer kernel formats",
    examples=("kernel new --format c-cpu > conv.cpp", "kernel check conv.cpp"),
)
def command():
    """Work with your own kernel files: list formats, start one, check one."""


@command.command("formats", examples=("kernel formats",))
def formats():
    """List the formats of kernel files: who has them, and by what a file is recognised."""
    from ...kernel_files import formats
    from ...present import kernel as present
    from ...present.render import terminal

    terminal.show([present.formats(formats.FORMATS)])


@command.command(
    "new", examples=("kernel new --format minidnn > new-forward.cu", "kernel new --format c-cpu > conv.cpp")
)
@click.option("--format", "name", required=True, metavar="NAME", help="See `kernel formats`; mxnet, minidnn, c too.")
def new(name):
    """Print a naive kernel to start from: `kernel new --format minidnn > new-forward.cu`."""
    from ...kernel_files import formats

    click.echo(formats.template(name), nl=False)


@command.command(
    "check",
    examples=(
        "kernel new --format c-cpu > conv.cpp",
        "kernel check conv.cpp --edition fa2020 --verbose",
        ("kernel check new-forward.cu", "your kernel file, and a GPU"),
    ),
)
@click.argument("file", metavar="FILE")
@options.takes(
    options.kernel_format,
    click.option("--edition", metavar="NAME", help="Insist on one edition [default: those of the file's format]."),
    options.backend,
    options.device,
    options.timeout,
    click.option("--verbose", "-v", is_flag=True, help="Show every layer's finding, and the compiler's warnings."),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead."),
)
def check(file, kernel_format, edition, backend, device, timeout, verbose, as_json):
    """Build a kernel file, and judge it on every layer of its editions and on sizes it was not written for.

    Each shape is tried in a process of its own. Exit 0 when the file is correct for one whole edition of its format
    (with --edition: for that one), and 1 when it is not.
    """
    import json

    from ...judging import trials
    from ...kernel_files import formats
    from ...present import kernel as present
    from ...present.render import terminal

    recognised = formats.recognise(file, kernel_format, backend)
    found = trials.check(recognised, device=device, edition=edition, timeout=timeout, verbose=verbose)
    if as_json:
        click.echo(json.dumps(found.as_dict(), indent=2))
    else:
        terminal.show(present.check(found, verbose))
    if not found.right:
        raise CheckFailed(found.sentence)
