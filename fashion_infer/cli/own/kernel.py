"""`fashion-infer kernel`."""

import click

from ...errors import CheckFailed
from .. import options
from ..groups import ExampleGroup
from ..isolated_run import run_isolated


@click.group(
    "kernel",
    cls=ExampleGroup,
    following="fashion-infer kernel formats",
    examples=("kernel new --format minidnn > new-forward.cu", "kernel check new-forward.cu"),
)
def command():
    """Work with your own kernel files: list formats, start one, check one."""


@command.command("formats", examples=("kernel formats", "kernel formats | less"))
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


@command.command("check", examples=("kernel check new-forward.cu", "kernel check conv.cpp --backend cpu --verbose"))
@click.argument("file", metavar="FILE")
@options.takes(
    options.kernel_format,
    options.backend,
    options.device,
    options.timeout,
    click.option("--verbose", "-v", is_flag=True, help="Show the compiler's warnings."),
)
def check(file, kernel_format, backend, device, timeout, verbose):
    """Build a kernel file, and try it on every layer of its editions and on sizes it never heard of.

    Exit 1 when a layer is wrong, or a call fails. Other sizes are shown only: a kernel made for the layers need not
    take them.
    """
    path = file if "/" in file else f"./{file}"
    run_isolated([path], timeout)
    from ...judging import trials
    from ...kernel_files import formats, loading
    from ...present import kernel as present
    from ...present.render import terminal

    recognised = formats.recognise(file, kernel_format, backend)
    found = trials.check(loading.load(recognised, verbose, device=device), device=device)
    terminal.show(present.check(found))
    if not found.right:
        wrong = [one for one in found.tried if not one.right and one.what != "another size"]
        raise CheckFailed(f"{found.kernel.name} is wrong: {len(wrong)} of its editions' layers")
