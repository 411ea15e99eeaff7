"""The options of the commands, each defined once, and the objects that carry them."""

import functools
import math

import click

from ..system.isolation import TIMEOUT
from . import scaling
from .isolated_run import run_isolated


class Number(click.FloatRange):
    """A finite number of a range: click's own takes NaN, which is outside of none, and of an open range infinity."""

    def convert(self, value, param, ctx):
        """The number; a UsageError of click's for any other text."""
        found = super().convert(value, param, ctx)
        if not math.isfinite(found):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return found


model = click.option("--model", metavar="NAME", help="A shipped model, see `models list` [default: the edition's].")
edition = click.option(
    "--edition", metavar="NAME", help="Of the course; models then go by short names [default: fa2017]."
)
checkpoint = click.option(
    "--checkpoint",
    metavar="PATH",
    help="Instead of a model: FILE.h5, PREFIX of an MXNet checkpoint, or weights-86.bin.",
)
epoch = click.option("--epoch", type=int, default=1, show_default=True, help="NNNN in PREFIX-NNNN.params.")
trust_symbol = click.option(
    "--trust-symbol",
    is_flag=True,
    help="Run a checkpoint's network whatever operators it has: as one trusts a program.",
)
input_size = click.option("--input-size", type=int, help="Pixels a side [default: what fits the network].")
weights = click.option(
    "--weights",
    type=click.Choice(["shipped", "original"]),
    default="shipped",
    show_default=True,
    help="The course's own, once `models fetch --original` has got them.",
)
operator = click.option(
    "--op",
    "operator",
    type=click.Choice(["custom", "builtin"]),
    help="Run the convolutions by our operator or by MXNet's own [default: as the model has them].",
)
n = click.option("--n", type=int, help="Test images, 1 to 10000 [default: 10000; of one's own all].")
data_dir = click.option("--data-dir", metavar="DIR", help="Folder of the dataset.")
data = click.option(
    "--data",
    type=click.Choice(["fashion-mnist", "synthetic"]),
    help="The dataset, or the built-in set drawn from a statistical model of it.",
)
data_or_own = click.option(
    "--data",
    type=click.Choice(["fashion-mnist", "synthetic", "own"]),
    help="The dataset, the built-in set drawn from a statistical model of it, or one's own in --data-dir.",
)
images = click.option("--images", metavar="FILE", help="Of a dataset of one's own: IDX (also .gz), .npy or .npz.")
labels = click.option("--labels", metavar="FILE", help="And its labels.")
backend = click.option("--backend", type=click.Choice(["auto", "cpu", "gpu"]), default="auto", show_default=True)
device = click.option("--device", type=int, default=0, show_default=True, help="Index of the GPU.")


class _DeviceType(click.ParamType):
    """A GPU's index, or `all`."""

    name = "device"

    def convert(self, value, param, ctx):
        return value if value == "all" else click.INT.convert(value, param, ctx)


devices = click.option(
    "--device",
    type=_DeviceType(),
    metavar="INDEX",
    default=0,
    show_default=True,
    help="Of the GPU; `all` splits the images between all of them.",
)
threads = click.option("--threads", type=int, help="CPU threads [default: the cores this process may use].")
kernel = click.option(
    "--kernel",
    "--kernels",
    "kernel",
    metavar="NAME",
    default="auto",
    show_default=True,
    help="Of our operator, see `doctor`; or a file of one's own, as in ./new-forward.cu (see `kernel formats`).",
)
kernel_format = click.option("--format", "kernel_format", metavar="NAME", help="The kernel file's, to insist on one.")
timeout = click.option(
    "--timeout",
    type=Number(min=0, min_open=True),
    default=TIMEOUT,
    show_default=True,
    metavar="SECONDS",
    help="For a kernel file, once it is compiled.",
)
KERNEL = (kernel, kernel_format, timeout)
mode = click.option(
    "--mode",
    type=click.Choice(["fused", "operator"]),
    help="The network as fused stages, or node by node as the course ran it [default: fused, or operator when --op or "
    "--kernel is given].",
)
precision = click.option(
    "--precision",
    type=click.Choice(["float32", "tf32", "fp16"]),
    default="float32",
    show_default=True,
    help="Of the fused mode on a GPU; what is not float32 says how many predictions changed.",
)
batch_size = click.option("--batch-size", type=int, help="Images a slice; bounds memory.")
repeat = click.option(
    "--repeat", type=int, default=1, show_default=True, help="Passes over the images; times are medians."
)

MODEL = (model, edition, checkpoint, epoch, trust_symbol, input_size, weights, operator)
DEVICE = (backend, devices, threads)
DATA = (data_dir, data)
OWN_DATA = (data_dir, data_or_own, images, labels)
RUN = (*MODEL, n, *DEVICE, *KERNEL, mode, precision, batch_size, *OWN_DATA, repeat)
# Of the benchmarks.
editions = click.option(
    "--edition", "editions", multiple=True, metavar="NAME", help="May be repeated [default: fa2017]."
)
OUTPUTS = (
    click.option("--json", "as_json", metavar="FILE.json", help="Write everything that was measured."),
    click.option("--plot", metavar="FILE.svg", help="Draw a chart; FILE.png as well."),
    click.option("--markdown", metavar="FILE.md", help="Write the tables as a page of documentation."),
)


def takes(*options):
    """A decorator that gives a command these options, in this order in its help."""

    def decorate(function):
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def takes_request(*options):
    """A decorator that gives a command these options, and hands them to it as one checked `Request`, its first
    argument. What is no field of a request stays an argument of the command; `scaling.OPTIONS` come as one, `many`."""

    def decorate(function):
        @functools.wraps(function)
        def command(*arguments, **values):
            timeout = values.pop("timeout", TIMEOUT)
            run_isolated([values.get("kernel")], timeout)
            from ..request import Request

            if "ray" in values:
                values["many"] = scaling.taken(values)
            fields = Request.__dataclass_fields__
            request = Request(**{name: values.pop(name) for name in list(values) if name in fields})
            request.check()
            return function(request, *arguments, **values)

        return takes(*options)(command)

    return decorate
