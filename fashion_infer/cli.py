"""The command line: parse, call, print. No logic.

What scripts read goes to stdout; progress, notices and errors go to stderr.
"""

import json as json_module
import os
import sys

import click

from . import __version__
from .errors import CheckFailed, FashionInferError, UsageError

_PROGRAM = "fashion-infer"


def main(argv=None):
    """Run the command line and end the process with its exit code (see `errors`)."""
    try:
        status = cli.main(args=argv, prog_name=_PROGRAM, standalone_mode=False)
        sys.stdout.flush()
        sys.exit(status if isinstance(status, int) else 0)
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        hint = f" (see `{context.command_path} --help`)" if context else ""
        _fail(f"{error.format_message().rstrip('.')}{hint}", error.exit_code)
    except FashionInferError as error:
        _fail(str(error), error.exit_code)
    except ImportError as error:  # _mxnet says in one sentence what is missing
        _fail(str(error), 4)
    except MemoryError:
        _fail("out of memory: use a smaller --batch-size", 4)
    except (KeyboardInterrupt, click.Abort):
        _fail("interrupted", 130)
    except BrokenPipeError:  # the reader of our output has gone; nothing is left to say
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)


def _fail(message, code):
    click.echo(f"{_PROGRAM}: {' '.join(message.split())}", err=True)
    sys.exit(code)


def _notice(text):
    if text:
        click.echo(f"{_PROGRAM}: {text}", err=True)


def _table(*columns, title=None):
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left")
    for name in columns:
        numeric = name.startswith(">")
        table.add_column(name.lstrip(">"), justify="right" if numeric else "left", no_wrap=numeric)
    return table


def _print(table):
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 120  # a file or a pipe has no width of its own
    console.print(table)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name=_PROGRAM)
def cli():
    """Fashion-MNIST through hand-written convolution operators in MXNet: is it right, and how fast is it?"""


# ---- run -------------------------------------------------------------------------------------

_data_options = [
    click.option("--data-dir", metavar="DIR", help="Folder with the four .gz files of Fashion-MNIST."),
    click.option(
        "--data",
        type=click.Choice(["fashion-mnist", "synthetic"]),
        help="The dataset, or the built-in set drawn from a statistical model of it.",
    ),
]
_device_options = [
    click.option("--backend", type=click.Choice(["auto", "cpu", "gpu"]), default="auto", show_default=True),
    click.option("--device", type=int, default=0, show_default=True, help="Index of the GPU."),
    click.option("--threads", type=int, help="CPU threads [default: the cores this process may use]."),
]


def _options(options):
    def decorate(function):
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


@cli.command()
@click.option("--model", metavar="NAME", help="A shipped model, see `models list` [default: ece408-high].")
@click.option("--checkpoint", metavar="PATH", help="Instead of a model: FILE.h5, or PREFIX of an MXNet checkpoint.")
@click.option("--epoch", type=int, default=1, show_default=True, help="NNNN in PREFIX-NNNN.params.")
@click.option("--n", type=int, default=10000, show_default=True, help="Test images, 1 to 10000.")
@_options(_device_options)
@click.option("--kernel", metavar="NAME", default="auto", show_default=True, help="Variant, see `doctor`.")
@click.option(
    "--op",
    type=click.Choice(["custom", "builtin"]),
    help="Run the convolutions by our operator or by MXNet's own [default: as the model has them].",
)
@click.option("--batch-size", type=int, help="Images a slice; bounds memory.")
@_options(_data_options)
@click.option("--repeat", type=int, default=1, show_default=True, help="Passes over the images; times are medians.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead.")
def run(
    model,
    checkpoint,
    epoch,
    n,
    backend,
    device,
    threads,
    kernel,
    op,
    batch_size,
    data_dir,
    data,
    repeat,
    as_json,
):
    """Classify the first N test images and print correctness and Op Time."""
    from . import dataset, pipeline

    say = (lambda *a, **k: None) if as_json else click.echo
    dataset.check_n(n)
    say("Loading fashion-mnist data...", nl=False)
    images = _first_line_ended(as_json, lambda: dataset.load(n, data_dir, data))
    say(" done")
    if images.source != data and images.source == dataset.SYNTHETIC:
        _notice(
            "Fashion-MNIST is neither on this machine nor to be had from the network: running on the built-in "
            "synthetic set instead (`fashion-infer data info` shows where it was looked for)"
        )
    say("Loading model...", nl=False)
    net = _first_line_ended(as_json, lambda: pipeline.load_model(model, checkpoint, epoch, op))
    say(" done")
    result = pipeline.run(net, images, backend, kernel, batch_size, threads, device, repeat)
    _notice(result.notice)
    if as_json:
        click.echo(json_module.dumps(result.as_dict(), indent=2))
    else:
        _print_run(result)


def _first_line_ended(quiet, call):
    """Call; when that fails, end the line that stdout is in, so that an error starts on its own."""
    try:
        return call()
    except BaseException:
        if not quiet:
            click.echo()
        raise


def _print_run(result):
    click.echo("New Inference")
    for _, seconds in result.op_times:
        click.echo(f"Op Time: {seconds:f}")
    synthetic = " Data: synthetic" if result.data_source == "synthetic" else ""
    if result.model == "baseline" and result.operator == "builtin":
        click.echo(f"EvalMetric: {{'accuracy': {result.correctness}}}{synthetic}")
    else:
        click.echo(f"Correctness: {result.correctness} Model: {result.model}{synthetic}")
    staged = any(sum(layer.upload) + sum(layer.download) for layer in result.layers)
    table = _table("layer", "operator", "kernel", ">op time, s", ">share", *([">transfers, s"] if staged else []))
    total = sum(layer.median for layer in result.layers) or 1.0
    for layer in result.layers:
        row = [
            layer.name,
            layer.operator,
            layer.kernel or "",
            f"{layer.median:f}",
            f"{layer.median / total:.1%}",
        ]
        if staged:
            row.append(f"{layer.upload[0] + layer.download[0]:f}" if layer.custom else "")
        table.add_row(*row)
    _print(table)


# ---- verify ----------------------------------------------------------------------------------


@cli.command()
@click.option("--model", "models", metavar="NAME", multiple=True, help="Only this model; may be repeated.")
@_options(_device_options)
@_options(_data_options)
def verify(models, backend, device, threads, data_dir, data):
    """Run every shipped model at every n with a known correctness; exit 1 on any difference."""
    from . import verification

    checks = verification.verify(models, backend, device, threads, data_dir, data)
    table = _table("model", "op", "backend", "data", ">n", ">expected", ">got", "")
    for c in checks:
        table.add_row(
            c.model,
            c.operator,
            c.backend,
            c.source,
            str(c.n),
            f"{c.expected}",
            f"{c.got}",
            "ok" if c.ok else "WRONG",
        )
    _print(table)
    if checks[0].source == "synthetic" and data != "synthetic":
        _notice("Fashion-MNIST was not found: verified on the built-in synthetic set")
    wrong = [c for c in checks if not c.ok]
    if wrong:
        raise CheckFailed(f"{len(wrong)} of {len(checks)} checks failed")
    click.echo(f"{len(checks)} checks passed")


# ---- doctor ----------------------------------------------------------------------------------


@cli.command()
def doctor():
    """Check Python, NumPy, MXNet, the operator library, devices, dataset and models; say what to do."""
    from . import examination

    findings = examination.examine()
    table = _table("", "what", "found", "what to do")
    for f in findings:
        table.add_row({True: "ok", False: "NO", None: "--"}[f.ok], f.what, f.found, f.advice)
    _print(table)
    broken = [f.what for f in findings if f.ok is False]
    if broken:
        raise CheckFailed(f"needs attention: {', '.join(broken)}")


# ---- data ------------------------------------------------------------------------------------


@cli.group()
def data():
    """The dataset: where it is, and how to get it."""


@data.command("info")
@click.option("--data-dir", metavar="DIR", help="Look here only.")
def data_info(data_dir):
    """Show where Fashion-MNIST is looked for and what was found there."""
    from . import dataset

    table = _table("where", "folder", "test set", "training set")
    for location in dataset.locations(data_dir):
        states = [dataset.inspect(location.path, split) or "ok" for split in ("test", "train")]
        table.add_row(location.what, str(location.path), *(s if s in ("ok", "missing") else "damaged" for s in states))
    table.add_row("built in", "", "ok (synthetic)", "")
    _print(table)


@data.command("fetch")
@click.option("--to", metavar="DIR", help="Folder [default: the user's cache].")
@click.option("--train", is_flag=True, help="The training set too (26 MB more).")
def data_fetch(to, train):
    """Download Fashion-MNIST (4.4 MB), verify its MD5 sums; run it again to go on after an interruption."""
    from . import download

    for split in ("test", "train") if train else ("test",):
        folder = download.fetch(to, split)
    click.echo(f"Fashion-MNIST is in {folder}")


# ---- models ----------------------------------------------------------------------------------


@cli.group()
def models():
    """The shipped models, and checkpoints in MXNet's format."""


@models.command("list")
def models_list():
    """List the shipped models."""
    from . import zoo

    table = _table("model", "edition", ">correctness", "what it is")
    for model in zoo.MODELS.values():
        table.add_row(model.name, model.edition, f"{model.expected['fashion-mnist'][0][1]}", model.summary)
    _print(table)


@models.command("export")
@click.argument("name")
@click.option("--to", "prefix", metavar="PREFIX", required=True, help="Writes PREFIX-symbol.json, PREFIX-NNNN.params.")
@click.option("--epoch", type=int, default=1, show_default=True)
def models_export(name, prefix, epoch):
    """Write a shipped model as an MXNet checkpoint, every weight bit for bit."""
    from . import checkpoint, zoo

    for path in checkpoint.save_mxnet(prefix, zoo.get(name).load(), epoch):
        click.echo(str(path))


@models.command("import")
@click.argument("prefix")
@click.option("--epoch", type=int, default=1, show_default=True)
@click.option("--to", "path", metavar="FILE.h5", required=True)
def models_import(prefix, epoch, path):
    """Write an MXNet checkpoint as one HDF5 file, every weight bit for bit."""
    from . import checkpoint

    if not path.endswith(".h5"):
        raise UsageError(f"the file must be called NAME.h5, not {path}")
    checkpoint.save_hdf5(path, checkpoint.load_mxnet(prefix, epoch))
    click.echo(path)
