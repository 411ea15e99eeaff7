"""The command line: parse, call, print. No logic.

What scripts read goes to stdout; progress, notices and errors go to stderr.
"""

import json
import os
import sys

import click

from .. import __version__
from ..errors import CheckFailed, FashionInferError, UsageError
from ..present import output

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
_edition_option = [
    click.option("--edition", metavar="NAME", help="Of the course; models then go by short names [default: fa2017]."),
]
_model_options = [
    click.option("--model", metavar="NAME", help="A shipped model, see `models list` [default: the edition's]."),
    *_edition_option,
    click.option("--checkpoint", metavar="PATH", help="Instead of a model: FILE.h5, or PREFIX of an MXNet checkpoint."),
    click.option("--epoch", type=int, default=1, show_default=True, help="NNNN in PREFIX-NNNN.params."),
    click.option("--input-size", type=int, help="Pixels a side [default: what fits the network]."),
    click.option(
        "--weights",
        type=click.Choice(["shipped", "original"]),
        default="shipped",
        show_default=True,
        help="The course's own, once `models fetch --original` has got them.",
    ),
    click.option(
        "--op",
        type=click.Choice(["custom", "builtin"]),
        help="Run the convolutions by our operator or by MXNet's own [default: as the model has them].",
    ),
]


def _options(*groups):
    def decorate(function):
        for option in reversed([option for group in groups for option in group]):
            function = option(function)
        return function

    return decorate


_run_options = [
    *_model_options,
    click.option("--n", type=int, default=10000, show_default=True, help="Test images, 1 to 10000."),
    *_device_options,
    click.option("--kernel", metavar="NAME", default="auto", show_default=True, help="Variant, see `doctor`."),
    click.option(
        "--mode",
        type=click.Choice(["fused", "operator"]),
        help="The network as fused stages, or node by node as the course ran it [default: fused, or operator when --op "
        "or --kernel is given].",
    ),
    click.option(
        "--precision",
        type=click.Choice(["float32", "tf32", "fp16"]),
        default="float32",
        show_default=True,
        help="Of the fused mode on a GPU; what is not float32 says how many predictions changed.",
    ),
    click.option("--batch-size", type=int, help="Images a slice; bounds memory."),
    *_data_options,
    click.option("--repeat", type=int, default=1, show_default=True, help="Passes over the images; times are medians."),
]


@cli.command()
@_options(_run_options)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead.")
@click.option("--confusion", metavar="FILE.png", help="Draw the confusion matrix.")
@click.option("--mistakes", metavar="FILE.png", help="Draw the misclassified images.")
def run(n, data_dir, data, as_json, confusion, mistakes, **options):
    """Classify the first N test images and print correctness and Op Time."""
    _run(n, data_dir, data, options, as_json, confusion, mistakes)


def _run(n, data_dir, data, options, as_json=False, confusion=None, mistakes=None):
    from .. import pipeline
    from ..present import plots

    plots.check_path(confusion)
    plots.check_path(mistakes)
    images, net = _loaded(n, data_dir, data, options, as_json)
    result = pipeline.run(net, images, **options)
    output.notice(result.notice)
    if as_json:
        click.echo(json.dumps(result.as_dict(), indent=2))
    else:
        output.run_report(result)
    title = f"{result.model}, correctness {result.correctness} on {result.n} images"
    if confusion:
        plots.confusion(confusion, result.labels, result.predictions, net.class_names, title)
    if mistakes:
        wrong = result.predictions != result.labels
        chosen = images.images[wrong], result.predictions[wrong]
        plots.sheet(mistakes, *chosen, net.class_names, f"mistakes of {title}", result.labels[wrong])


def _loaded(n, data_dir, data, options, quiet=False):
    """The images and the network; takes out of the options what names the network."""
    from .. import pipeline
    from ..data import dataset

    dataset.check_n(n)
    images = _announced(quiet, "Loading fashion-mnist data...", lambda: dataset.load(n, data_dir, data))
    if images.source != data and images.source == dataset.SYNTHETIC:
        output.notice(
            "Fashion-MNIST is neither on this machine nor to be had from the network: running on the built-in "
            "synthetic set instead (`fashion-infer data info` shows where it was looked for)"
        )
    net = _announced(
        quiet,
        "Loading model...",
        lambda: pipeline.load_model(
            options.pop("model"),
            options.pop("checkpoint", None),
            options.pop("epoch", 1),
            options.pop("op"),
            options.pop("edition", None),
            options.pop("weights", "shipped"),
            options.pop("input_size", None),
        ),
    )
    return images, net


def _announced(quiet, text, call):
    """Say what begins, call, say that it is done; end the line first when it fails, so that an error has its own."""
    if quiet:
        return call()
    click.echo(text, nl=False)
    try:
        result = call()
    except BaseException:
        click.echo()
        raise
    click.echo(" done")
    return result


@cli.command()
@click.argument("program", metavar="PROGRAM")
@click.argument("model", required=False)
@click.argument("n", type=int, required=False)
@click.option("--edition", default="fa2017", show_default=True, metavar="NAME")
@_options(_data_options)
def course(program, model, n, edition, data_dir, data):
    """Run one of the course's programs, m1.1 m1.2 m2.1 m3.1 m4.1 final, with its own arguments."""
    from .. import course as presets

    asked = presets.request(program, edition, model, n)
    chosen = {"model": asked.model, "edition": asked.edition}
    # Node by node, as the course's programs ran the network.
    _run(asked.n, data_dir, data, {**chosen, "op": asked.operator, "backend": asked.backend, "mode": "operator"})


@cli.command()
@click.argument("pictures", nargs=-1, required=True, metavar="IMAGE...")
@_options(_model_options, _device_options)
@click.option("--invert/--no-invert", default=None, help="Swap light and dark [default: when the border is light].")
@click.option("--show", metavar="FILE.png", help="Draw what the network saw and what it said.")
def predict(pictures, invert, show, **options):
    """Classify pictures (PNG, JPEG, any size): class and probability."""
    from .. import classification
    from ..present import plots

    plots.check_path(show)
    found = classification.classify(pictures, invert=invert, **options)
    made = output.table("picture", "class", ">probability", "next", ">probability")
    for picture, scores in zip(pictures, found.scores):
        best = scores.argsort()[::-1][:2]
        made.add_row(picture, *(cell for i in best for cell in (found.class_names[i], f"{scores[i]:.3f}")))
    output.show(made)
    if show:
        plots.sheet(show, found.images, found.scores.argmax(axis=1), found.class_names, "predictions")


# ---- verify ----------------------------------------------------------------------------------


@cli.command()
@click.option("--model", "models", metavar="NAME", multiple=True, help="Only this model; may be repeated.")
@_options(_device_options, _data_options)
def verify(models, backend, device, threads, data_dir, data):
    """Run every model at every n with a known correctness, in both modes; exit 1 on any difference."""
    from .. import verification

    checks = verification.verify(models, backend, device, threads, data_dir, data)
    output.check_report(checks)
    if checks[0].source == "synthetic" and data != "synthetic":
        output.notice("Fashion-MNIST was not found: verified on the built-in synthetic set")
    wrong = [c for c in checks if not c.ok]
    if wrong:
        raise CheckFailed(f"{len(wrong)} of {len(checks)} checks failed")
    click.echo(f"{len(checks)} checks passed")


# ---- doctor ----------------------------------------------------------------------------------


@cli.command()
def doctor():
    """Check Python, NumPy, MXNet, the operator library, devices, dataset and models; say what to do."""
    from .. import examination

    findings = examination.examine()
    made = output.table("", "what", "found", "what to do")
    for f in findings:
        made.add_row({True: "ok", False: "NO", None: "--"}[f.ok], f.what, f.found, f.advice)
    output.show(made)
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
    from ..data import dataset

    made = output.table("where", "folder", "test set", "training set")
    for location in dataset.locations(data_dir):
        states = [dataset.inspect(location.path, split) or "ok" for split in ("test", "train")]
        made.add_row(location.what, str(location.path), *(s if s in ("ok", "missing") else "damaged" for s in states))
    made.add_row("built in", "", "ok (synthetic)", "")
    output.show(made)


@data.command("fetch")
@click.option("--to", metavar="DIR", help="Folder [default: the user's cache].")
@click.option("--train", is_flag=True, help="The training set too (26 MB more).")
def data_fetch(to, train):
    """Download Fashion-MNIST (4.4 MB), verify its MD5 sums; run it again to go on after an interruption."""
    from ..data import download

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
    from ..checkpoints import originals, zoo

    made = output.table("model", "edition", ">correctness", "original weights", "what it is")
    for model in zoo.MODELS.values():
        fetched = "fetched" if originals.path(model.name).is_file() else "not fetched"
        correctness = f"{model.expected['fashion-mnist'][0][1]}"
        made.add_row(model.name, model.edition, correctness, fetched, model.summary)
    output.show(made)


@models.command("fetch")
@click.argument("name")
@click.option("--original", is_flag=True, help="The course's own weights, from their public repository.")
@_options(_edition_option)
def models_fetch(name, original, edition):
    """Download a model's original weights, verified by their Git blob id."""
    from ..checkpoints import originals, zoo

    name = zoo.get(name, edition).name
    if not original:
        raise UsageError(f"the shipped weights of {name} are here already; add --original for the course's")
    click.echo(str(originals.fetch(name)))


@models.command("export")
@click.argument("name")
@click.option("--to", "prefix", metavar="PREFIX", required=True, help="Writes PREFIX-symbol.json, PREFIX-NNNN.params.")
@click.option("--epoch", type=int, default=1, show_default=True)
@_options(_edition_option)
def models_export(name, prefix, epoch, edition):
    """Write a shipped model as an MXNet checkpoint, every weight bit for bit."""
    from ..checkpoints import checkpoint, zoo

    for path in checkpoint.save_mxnet(prefix, zoo.get(name, edition).load(), epoch):
        click.echo(str(path))


@models.command("import")
@click.argument("prefix")
@click.option("--epoch", type=int, default=1, show_default=True)
@click.option("--to", "path", metavar="FILE.h5", required=True)
def models_import(prefix, epoch, path):
    """Write an MXNet checkpoint as one HDF5 file, every weight bit for bit."""
    from ..checkpoints import checkpoint

    if not path.endswith(".h5"):
        raise UsageError(f"the file must be called NAME.h5, not {path}")
    checkpoint.save_hdf5(path, checkpoint.load_mxnet(prefix, epoch))
    click.echo(path)


# ---- bench -----------------------------------------------------------------------------------


@cli.group()
def bench():
    """Measure kernels and networks beside what a user could pick instead."""


_bench_place = [
    click.option("--edition", "editions", multiple=True, metavar="NAME", help="May be repeated [default: fa2017]."),
    click.option("--backend", type=click.Choice(["auto", "cpu", "gpu"]), default="auto", show_default=True),
    click.option("--device", type=int, default=0, show_default=True, help="Index of the GPU."),
]
_bench_files = [
    click.option("--json", "as_json", metavar="FILE.json", help="Write everything that was measured."),
    click.option("--plot", metavar="FILE.png", help="Draw a chart."),
    click.option("--markdown", metavar="FILE.md", help="Write the tables as a page of documentation."),
]


@bench.command("conv")
@_options(_bench_place)
@click.option("--kernels", default="all", show_default=True, metavar="NAME,...", help="Variants, see `doctor`.")
@click.option("--against", metavar="PEER,...", help="cudnn, torch, mxnet, onnxruntime, none [default: what is here].")
@click.option("--batch", type=int, help="Images [default: 10000 on a GPU, 1000 on a CPU].")
@click.option("--repeat", type=int, help="Timed runs [default: 20 on a GPU, 12 on a CPU].")
@_options(_bench_files)
def bench_conv(editions, backend, kernels, against, batch, repeat, as_json, plot, markdown, device):
    """Check every convolution kernel against float64, then time it; exit 1 when one is wrong."""
    from .. import devices
    from ..measure import bench_files as files
    from ..measure import conv
    from ..present import bench_report as report
    from ..present import chart, page

    files.check(as_json, markdown, plot=plot)
    backend = devices.choose(backend, device).backend
    measured = conv.convolutions(
        editions or ("fa2017",), backend, kernels, against, batch, repeat, device, lambda x: report.show(x, backend)
    )
    report.notices(measured)
    files.save(measured, chart.draw, page.text, as_json, plot, markdown)
    if measured.wrong:
        raise CheckFailed(f"wrong: {', '.join(measured.wrong)}")


@bench.command("net")
@_options(_bench_place)
@click.option(
    "--against", metavar="PEER,...", help="torch, torch-compile, onnxruntime, mxnet, none [default: all here]."
)
@click.option("--batch", metavar="N,...", multiple=True, help="Images; may be repeated [default: 1,16,256,10000].")
@click.option(
    "--repeat", type=int, help="Timed runs [default: 300 of small batches; of large 20 on a GPU, 12 on a CPU]."
)
@_options(_bench_files)
def bench_net(editions, backend, against, batch, repeat, as_json, plot, markdown, device):
    """Check the whole fused network against float64, then time it by batch size; exit 1 when it is wrong."""
    from .. import devices
    from ..measure import bench_files as files
    from ..measure import net
    from ..present import bench_report as report
    from ..present import net_chart, net_page, net_report

    files.check(as_json, markdown, plot=plot)
    batches = _numbers("--batch", batch) or net.BATCHES
    backend = devices.choose(backend, device, "fused").backend
    tell = {"checked": net_report.show_check, "progress": net_report.show_case}
    measured = net.networks(editions or ("fa2017",), backend, against, batches, repeat, device, **tell)
    report.notices(measured)
    files.save(measured, net_chart.draw, net_page.text, as_json, plot, markdown)
    if measured.wrong:
        raise CheckFailed(f"wrong: {', '.join(measured.wrong)}")


def _numbers(option, words):
    """Whole numbers, given with commas between them or by repeating the option."""
    try:
        return [int(word) for part in words for word in part.split(",")]
    except ValueError:
        raise UsageError(f"{option} takes whole numbers with commas between them, not {','.join(words)}") from None


# ---- profile ---------------------------------------------------------------------------------


@cli.command()
@_options(_run_options)
@click.option("--csv", "as_csv", metavar="FILE.csv", help="Write the two tables.")
@click.option("--json", "as_json", metavar="FILE.json", help="Write everything that was measured.")
@click.option("--trace", "timeline", metavar="FILE.json", help="Write a timeline that ui.perfetto.dev opens.")
@click.option("--counters", is_flag=True, help="Hardware counters of each kernel too, by Nsight Compute.")
@click.option(
    "--turns",
    type=int,
    default=3,
    show_default=True,
    help="Further passes with and without the profiler, for its overhead: so many of each.",
)
@click.option("--ceilings/--no-ceilings", default=True, help="Measure what the device can do at most [default: yes].")
@click.pass_context
def profile(context, n, data_dir, data, as_csv, as_json, timeline, counters, turns, ceilings, **options):
    """Run under the profiler: where the time goes, by kernel and by call."""
    from ..measure import bench_files as files
    from ..present import profile_report as report
    from ..profiling import counters as hardware
    from ..profiling import session

    files.check(as_csv, as_json, timeline)
    if counters:
        hardware.find()
    images, net = _loaded(n, data_dir, data, options)
    found = session.profile(net, images, turns=turns, with_ceilings=ceilings, **options)
    output.notice(found.result.notice)
    output.run_report(found.result)
    report.show(found)
    counted = []
    if counters:
        if found.result.backend != "gpu":
            raise UsageError("hardware counters are a GPU's, and this ran on the CPU")
        counted = hardware.count(["run", *_arguments(run, context.params)])
        report.show_counters(counted)
    report.save(found, counted, " ".join(sys.argv[1:]), as_csv, as_json, timeline)


def _arguments(command, values):
    """The command line that gives a command these values of its options."""
    given = [(p.opts[0], values.get(p.name)) for p in command.params if p.name in values and not p.is_flag]
    return [str(part) for name, value in given if value is not None for part in (name, value)]


# ---- report ----------------------------------------------------------------------------------


@cli.command("report")
@click.option("--out", required=True, metavar="DIR", help="Folder: new, empty, or a former report to replace.")
@click.option("--backend", type=click.Choice(["auto", "cpu", "gpu"]), default="auto", show_default=True)
@click.option("--device", type=int, default=0, show_default=True, help="Index of the GPU.")
@click.option("--model", metavar="NAME", help="A shipped model, see `models list` [default: ece408-high].")
@click.option("--n", type=int, help="Test images [default: 10000, with --quick 2000].")
@_options(_data_options)
@click.option("--quick", is_flag=True, help="Fewer repeats and smaller batches, the checks of two models only.")
def make_report(out, **options):
    """Measure everything, and write it as one HTML page and the same as Markdown; exit 1 when something is wrong."""
    from ..reporting import gather, report

    request = gather.Request(**options)
    page, measured = report.make(out, request, lambda text: click.echo(f"report: {text}", err=True))
    click.echo(str(page))
    if measured.wrong:
        raise CheckFailed(f"wrong: {'; '.join(measured.wrong)}")


# ---- compare ---------------------------------------------------------------------------------


@cli.command()
@click.argument("first", metavar="A.json")
@click.argument("second", metavar="B.json")
@click.option("--check", is_flag=True, help="Exit 1 when B is slower beyond the noise, or its correctness differs.")
def compare(first, second, check):
    """Two files of `run --json`, `bench conv --json` or `bench net --json` side by side, with ratios and verdicts.

    Medians are the same when they differ by no more than the spread of either's repeats and 3% (10% of fewer than
    four repeats).
    """
    from ..measure import verdicts

    found = verdicts.compare(first, second)
    output.comparison(found)
    if check and found.faults:
        raise CheckFailed("; ".join(found.faults))
