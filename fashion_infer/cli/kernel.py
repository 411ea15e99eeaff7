"""The command `fashion-infer kernel`."""

import os
import time

import click

from ..errors import CheckFailed, FashionInferError, UsageError
from ..present.content import Text
from ..present.render import terminal
from ..system.isolation import TIMEOUT
from . import options
from .groups import ExampleGroup


class Sizes(click.ParamType):
    """Type of a layer's sizes, written as C,SIZE,M,K."""

    name = "sizes"

    def convert(self, value, param, ctx):
        words = value.split(",") if isinstance(value, str) else value
        if len(words) != 4 or not all(str(word).isdecimal() and 1 <= int(word) <= 4096 for word in words):
            self.fail(
                f"{value} is not four numbers (channels,input size,filters,kernel size): try 3,32,64,3", param, ctx
            )
        sizes = tuple(map(int, words))
        if sizes[3] > sizes[1]:
            self.fail(f"{value}: the kernel is larger than the input", param, ctx)
        return sizes


_LAYERS = click.option(
    "--layer",
    "layers",
    multiple=True,
    type=Sizes(),
    metavar="C,SIZE,M,K",
    help="Layer of another network: channels, input size, filters, kernel size; may be repeated.",
)


_BACKEND = options.of_request("backend", help="Where to run; auto takes the backend that the file is written for.")


@click.group(
    "kernel",
    cls=ExampleGroup,
    following="fashion-infer kernel formats",
    examples=("kernel new --format c-cpu > conv.cpp", "kernel check conv.cpp"),
)
def command():
    """Create, check and explain your own kernel files."""


@command.command("formats", examples=("kernel formats",))
def formats():
    """List the formats of kernel files: the semesters that used each one, and how it is recognised."""
    from ..kernel_files import formats
    from ..present import kernel as present

    terminal.show([present.formats(formats.FORMATS)])


@command.command(
    "new", examples=("kernel new --format minidnn > new-forward.cu", "kernel new --format c-cpu > conv.cpp")
)
@click.option(
    "--format", "name", metavar="NAME", help="Format of the kernel file, from `kernel formats`, or mxnet, minidnn or c."
)
def new(name):
    """Print a naive kernel file to start from, as in `kernel new --format minidnn > new-forward.cu`."""
    from ..kernel_files import formats

    if name is None:
        known = ", ".join(entry.name for entry in formats.FORMATS if entry.template)
        raise UsageError(f"choose a format with --format: {known} (`kernel formats` describes them)")
    click.echo(formats.template(name), nl=False)


_WATCH = click.option("--watch", is_flag=True, help="Run again after each change of the file, until Ctrl-C.")


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
    click.option("--edition", metavar="NAME", help="Check only this edition's layers [default: all of the format]."),
    _BACKEND,
    options.device,
    click.option(
        "--timeout",
        type=options.Number(min=0, min_open=True),
        default=TIMEOUT,
        show_default=True,
        metavar="SECONDS",
        help="Time limit for each shape, in seconds; compiling does not count.",
    ),
    click.option(
        "--verbose",
        "-v",
        is_flag=True,
        help="Also show times, each incorrect result's reason, and the compiler's warnings.",
    ),
    options.as_json,
    _WATCH,
)
def check(file, kernel_format, layers, edition, backend, device, timeout, verbose, as_json, watch):
    """Build a kernel file, and check it on every layer of its format's editions and on other sizes.

    Each shape runs in a separate process. The exit code is 0 if the file is correct for all layers of at least one
    edition (with --edition: of that edition), and 1 if it is not.
    """
    from ..explain import explanation
    from ..judging import judge
    from ..kernel_files import formats
    from ..present import explanation as reasons
    from ..present import kernel as present
    from ..present.render.progress import ProgressBar

    if layers and edition:
        raise UsageError("--layer replaces the layers of an edition: leave --edition out")

    def once():
        recognised = formats.recognise(file, kernel_format, backend)
        with ProgressBar("kernel check") as bar:
            found = judge.check(recognised, edition, layers, None, device, timeout, verbose, bar.tick)
        if as_json:
            terminal.show_json(found.as_dict())
        else:
            terminal.show(present.check(found, verbose))
        if not found.right:
            if not as_json:
                why, missing = explanation.why_wrong(found)
                terminal.show([*reasons.why(why), *(Text(line) for line in missing)])
            raise CheckFailed(found.sentence)

    _watched(file, watch, as_json, once)


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
    click.option(
        "--edition",
        metavar="NAME",
        help="Edition whose layer is examined [default: the first for which the file is correct].",
    ),
    click.option("--layer", type=click.IntRange(min=1), metavar="N", help="Layer to examine [default: the last]."),
    _BACKEND,
    options.device,
    click.option("--sanitize", is_flag=True, help="Run the sanitizers even if the file is correct."),
    click.option("--asm", is_flag=True, help="List the hot loop's instructions next to their source lines."),
    options.as_json,
    click.option("--no-profiler", is_flag=True, help="Do not use ncu."),
    _WATCH,
)
def explain(file, kernel_format, edition, layer, backend, device, sanitize, asm, as_json, no_profiler, watch):
    """Find the lines that make a kernel wrong or, if it is correct, what makes it slow, and which of our kernels shows
    the remedy.

    The exit code is 1 if the file is incorrect.
    """
    from ..explain import explanation
    from ..kernel_files import formats
    from ..present import explanation as present

    def once():
        recognised = formats.recognise(file, kernel_format, backend)
        found = explanation.explain(recognised, edition, layer, device, sanitize, asm, not no_profiler)
        if as_json:
            terminal.show_json(found.as_dict())
        else:
            terminal.show(present.page(found, verdict=False))
        if not found.right:
            raise CheckFailed(found.verdict.sentence)

    _watched(file, watch, as_json, once)


def _watched(file, watch, as_json, once):
    if watch and as_json:
        raise UsageError("--json prints one object: leave --watch out")
    if not watch:
        once()
        return
    while True:
        seen = _stamp(file)
        try:
            once()
        except FashionInferError as error:
            click.echo(f"fashion-infer: {error}", err=True)
        click.echo(f"watching {file}; press Ctrl-C to end", err=True)
        while _stamp(file) in (seen, None):
            time.sleep(0.2)


def _stamp(file):
    """Return a value that differs after each change of the file; None while an editor replaces the file."""
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size
