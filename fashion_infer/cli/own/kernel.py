"""`fashion-infer kernel`."""

import os
import time

import click

from ...errors import CheckFailed, FashionInferError, UsageError
from ...present.content import Text
from .. import options
from ..groups import ExampleGroup


class Sizes(click.ParamType):
    """Type of a layer's sizes, written as C,SIZE,M,K."""

    name = "sizes"

    def convert(self, value, param, ctx):
        """Return the four numbers; click's UsageError for anything else."""
        words = value.split(",") if isinstance(value, str) else value
        if len(words) != 4 or not all(str(word).isdecimal() and 1 <= int(word) <= 4096 for word in words):
            self.fail(f"{value} is not CHANNELS,INPUT SIZE,FILTERS,KERNEL SIZE, as 3,32,64,3", param, ctx)
        sizes = tuple(map(int, words))
        if sizes[3] > sizes[1]:
            self.fail(f"{value}: the kernel is larger than the input", param, ctx)
        return sizes


_LAYERS = click.option(
    "--layer", "layers", multiple=True, type=Sizes(), metavar="C,SIZE,M,K",
    help="A layer of another network: channels, input size, filters, kernel size; may be repeated.",
)  # fmt: skip


@click.group(
    "kernel",
    cls=ExampleGroup,
    following="fashion-infer kernel formats",
    examples=("kernel new --format c-cpu > conv.cpp", "kernel check conv.cpp"),
)
def command():
    """Work with your own kernel files: start, check and explain one."""


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
@_LAYERS
def new(name, layers):
    """Print a naive kernel to start from: `kernel new --format minidnn > new-forward.cu`."""
    from ...kernel_files import formats

    text, mark = formats.template(name), "#" if formats.find(name).name == "python" else "//"
    for number, (channels, size, filters, side) in enumerate(layers, start=1):
        click.echo(f"{mark} Layer {number}: {channels} to {filters} channels, {side}x{side}, on {size}x{size}.")
    click.echo(text, nl=False)


_WATCH = click.option("--watch", is_flag=True, help="Do it again at every change of the file, until Ctrl-C.")


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
    _LAYERS,
    click.option("--edition", metavar="NAME", help="Check for this edition alone [default: all of the file's format]."),
    options.backend,
    options.device,
    options.timeout,
    click.option("--verbose", "-v", is_flag=True, help="Show every layer's finding, and the compiler's warnings."),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead."),
    _WATCH,
)
def check(file, kernel_format, layers, edition, backend, device, timeout, verbose, as_json, watch):
    """Build a kernel file, and judge it on every layer of its editions and on sizes it was not written for.

    Each shape is tried in a process of its own. Exit 0 when the file is correct for one whole edition of its format
    (with --edition: for that one), and 1 when it is not.
    """
    import json

    from ...explain import explanation
    from ...judging import trials
    from ...kernel_files import formats
    from ...present import explanation as reasons
    from ...present import kernel as present
    from ...present.render import terminal
    from ...present.render.progress import ProgressBar

    if layers and edition:
        raise UsageError("--layer is in place of an edition's layers: leave --edition out")

    def once():
        recognised = formats.recognise(file, kernel_format, backend)
        with ProgressBar("kernel check") as bar:
            found = trials.check(
                recognised,
                shapes=layers or None,
                device=device,
                edition=edition,
                timeout=timeout,
                verbose=verbose,
                tick=bar.tick,
            )
        if as_json:
            click.echo(json.dumps(found.as_dict(), indent=2))
        else:
            terminal.show(present.check(found, verbose))
        if not found.right:
            if not as_json:
                why, missing = explanation.why_wrong(found)
                terminal.show([*reasons.why(why), *(Text(line) for line in missing)])
            raise CheckFailed(found.sentence)

    _watched(file, watch, once)


@command.command(
    "explain",
    examples=(
        "kernel new --format c-cpu > conv.cpp",
        "kernel explain conv.cpp",
        "kernel explain conv.cpp --edition fa2020 --layer 2 --asm",
    ),
)
@click.argument("file", metavar="FILE")
@options.takes(
    options.kernel_format,
    click.option("--edition", metavar="NAME", help="Edition whose layer is looked at [default: the file's first]."),
    click.option("--layer", type=click.IntRange(min=1), metavar="N", help="Number of the layer [default: the last]."),
    options.backend,
    options.device,
    click.option("--sanitize", is_flag=True, help="Run the sanitizers on a correct file, too."),
    click.option("--asm", is_flag=True, help="List the hot loop's instructions beside their lines."),
    click.option("--json", "path", metavar="FILE", help="Write everything that was found as JSON."),
    click.option("--no-profiler", is_flag=True, help="Leave ncu out."),
    _WATCH,
)
def explain(file, kernel_format, edition, layer, backend, device, sanitize, asm, path, no_profiler, watch):
    """Find the line that makes a kernel wrong; of a correct one, what makes it slow and which step shows the remedy.

    Exit 1 when the file is incorrect.
    """
    from ...explain import explanation
    from ...kernel_files import formats
    from ...present import explanation as present
    from ...present import files
    from ...present.render import terminal

    def once():
        recognised = formats.recognise(file, kernel_format, backend)
        found = explanation.explain(recognised, edition, layer, device, sanitize, asm, not no_profiler)
        if path:
            files.write_json(path, found.as_dict())
        terminal.show(present.page(found))
        if not found.right:
            raise CheckFailed(found.checked.sentence)

    _watched(file, watch, once)


def _watched(file, watch, once):
    """Call `once`; with `watch`, call it again after every change of the file, until Ctrl-C."""
    if not watch:
        once()
        return
    while True:
        seen = _stamp(file)
        try:
            once()
        except FashionInferError as error:
            click.echo(f"fashion-infer: {error}", err=True)
        click.echo(f"watching {file}; Ctrl-C ends", err=True)
        while _stamp(file) in (seen, None):
            time.sleep(0.2)


def _stamp(file):
    """Return a value that differs after each change of the file; None while an editor replaces the file."""
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size
