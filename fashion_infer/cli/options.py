"""Options that several commands share, each defined once, and decorators that add them to commands."""

import functools
import math
from typing import Optional

import click

from ..errors import DeviceError
from ..request import NORMALISATION as names_of_normalisation
from ..request import BlockRequest, Request
from ..system import compilers
from ..system.isolation import TIMEOUT
from .isolated_run import run_isolated


class Finite(click.types.FloatParamType):
    """Type of a finite number. Click's own type accepts NaN and infinity."""

    def convert(self, value, param, ctx):
        found = super().convert(value, param, ctx)
        if not math.isfinite(found):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return found


class Number(click.FloatRange, Finite):
    """Type of a finite number in a range. click.FloatRange alone accepts NaN."""


def of_request(name, *, choices=None, help=None):
    """Return the option for a field of a request. `choices` and `help` replace the field's own."""
    field = BlockRequest.__dataclass_fields__[name]
    settings = dict(help=help or field.metadata["help"], default=field.default)
    settings["show_default"] = field.default not in (None, False)
    if field.metadata["metavar"]:
        settings["metavar"] = field.metadata["metavar"]
    if choices or field.metadata["choices"]:
        settings["type"] = click.Choice(choices or field.metadata["choices"])
    elif field.type in (int, Optional[int]):
        settings["type"] = int
    elif field.type == Optional[float]:
        settings["type"] = Finite()
    elif field.type is bool:
        settings["is_flag"] = True
    return click.option(*(field.metadata["flags"] or [f"--{name.replace('_', '-')}"]), **settings)


device = click.option("--device", type=int, default=0, show_default=True, help="Index of the GPU.")
kernel, kernel_format, backend, threads = map(of_request, ("kernel", "kernel_format", "backend", "threads"))
edition, epoch, trust_symbol = map(of_request, ("edition", "epoch", "trust_symbol"))
timeout = click.option(
    "--timeout",
    type=Number(min=0, min_open=True),
    default=TIMEOUT,
    show_default=True,
    metavar="SECONDS",
    help="Time limit for running a kernel file, in seconds; compiling does not count.",
)
NORMALISATION = tuple(map(of_request, names_of_normalisation))
KERNEL = (kernel, kernel_format, timeout)
MODEL = (
    *(of_request("model"), edition, of_request("checkpoint"), epoch, trust_symbol),
    *NORMALISATION,
    *map(of_request, ("input_size", "weights", "operator")),
)
DEVICE = (backend, device, threads)
PICTURE = "as SVG or PNG (by the file name's suffix)"  # ends the help text of an option that names a picture to write
_TWO_SETS = (
    "Fashion-MNIST, or the built-in synthetic set, drawn from a statistical model of it "
    "[default: Fashion-MNIST, or synthetic where it is not found]."
)
DATA = (of_request("data_dir"), of_request("data", choices=("fashion-mnist", "synthetic"), help=_TWO_SETS))
OWN_DATA = tuple(map(of_request, ("data_dir", "data", "images", "labels")))
RUN = (
    *MODEL,
    of_request("n"),
    *DEVICE,
    *KERNEL,
    *map(of_request, ("mode", "precision", "batch_size")),
    *OWN_DATA,
    of_request("repeat"),
)
BLOCKS = tuple(map(of_request, ("ray", "out", "scores", "block_size")))
editions = click.option(
    "--edition", "editions", multiple=True, metavar="NAME", help="Course semester; may be repeated [default: fa2017]."
)
as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")
as_csv = click.option("--csv", "as_csv", metavar="FILE.csv", help="Write the tables as CSV.")
OUTPUTS = (
    as_json,
    as_csv,
    click.option("--plot", metavar="FILE.svg", help=f"Draw a chart, {PICTURE}."),
    click.option("--markdown", metavar="FILE.md", help="Write the tables as a Markdown page."),
)


def takes(*options):
    """Return a decorator that adds these options to a command. The command's help lists them in this order."""

    def decorate(function):
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def takes_request(*options):
    """Return a decorator that adds options, and passes one checked request and the values that are no fields of it."""

    def decorate(function):
        @functools.wraps(function)
        def command(*arguments, **values):
            # Look for a GPU before the slow imports. With --ray, the GPUs may be on other machines.
            if values.get("backend") == "gpu" and not values.get("ray") and not compilers.count_cuda_devices():
                raise DeviceError("this machine has no CUDA device: use --backend cpu (see `fashion-infer doctor`)")
            timeout = values.pop("timeout", TIMEOUT)
            run_isolated([values.get("kernel")], timeout)
            from .. import pipeline

            kind = BlockRequest if "ray" in values else Request
            request = kind(**{name: values.pop(name) for name in list(values) if name in kind.__dataclass_fields__})
            pipeline.check(request)
            return function(request, *arguments, **values)

        return takes(*options)(command)

    return decorate
