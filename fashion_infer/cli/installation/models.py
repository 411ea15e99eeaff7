"""`fashion-infer models`."""

import click

from ...errors import UsageError
from ...request import check_normalisation
from .. import options
from ..groups import ExampleGroup


@click.group(
    "models",
    cls=ExampleGroup,
    following="fashion-infer models list",
    examples=("models list", "models export ece408-high --to ece408"),
)
def command():
    """The shipped models, and checkpoints in other formats."""


@command.command("list", examples=("models list",))
def list_models():
    """List the shipped models."""
    from ...checkpoints import originals, zoo
    from ...present import environment
    from ...present.render import terminal

    rows = []
    for model in zoo.MODELS.values():
        fetched = "fetched" if originals.is_here(model.name) else "not fetched"
        if model.name not in originals.ORIGINALS:
            fetched = "nowhere public"
        correctness = model.expected["fashion-mnist"][0][1]
        rows.append([model.name, model.edition, correctness, fetched, model.summary])
    terminal.show([environment.models(rows)])


@command.command("fetch", examples=(("models fetch ece408-high --original", "a network"),))
@click.argument("name")
@click.option("--original", is_flag=True, help="The course's own weights, from their public repository.")
@options.takes(options.edition)
def fetch(name, original, edition):
    """Download a model's original weights, verified by their Git blob id."""
    from ...checkpoints import originals, zoo
    from ...present.render import terminal

    name = zoo.get(name, edition).name
    if not original:
        raise UsageError(f"the shipped weights of {name} are here already; add --original for the course's")
    terminal.say(str(originals.fetch(name)))


@command.command(
    "export", examples=("models export ece408-high --to ece408", "models export fa2020 --to weights-86.bin")
)
@click.argument("name")
@click.option(
    "--to",
    "target",
    metavar="PREFIX|FILE.bin",
    required=True,
    help="Write PREFIX-symbol.json and PREFIX-NNNN.params or, for fa2020, a single FILE.bin in mini-dnn's format.",
)
@options.takes(options.epoch, options.edition)
def export(name, target, epoch, edition):
    """Write a shipped model as an MXNet checkpoint or as weights of mini-dnn, every weight bit for bit."""
    from ...checkpoints import minidnn, mxnet_pair, zoo
    from ...present.render import terminal

    checkpoint = zoo.get(name, edition).load()
    if target.endswith(minidnn.SUFFIX):
        paths = [minidnn.save(target, checkpoint)]
    else:
        paths = mxnet_pair.save(target, checkpoint, epoch)
    for path in paths:
        terminal.say(str(path))


@command.command(
    "import",
    examples=(
        "models export ece408-high --to ece408",
        "models import ece408 --to ece408.h5",
        ("models import weights-86.bin --to fa2020.h5", "the course's file of weights"),
    ),
)
@click.argument("prefix", metavar="PREFIX|FILE.bin")
@options.takes(
    *(options.epoch, options.trust_symbol, *options.NORMALISATION),
    click.option("--to", "path", metavar="FILE.h5", required=True),
)
def import_pair(prefix, epoch, trust_symbol, path, **normalisation):
    """Write an MXNet checkpoint, or a weights-86.bin, as one HDF5 file.

    It has the weights that the network names, as float32: every weight that is a float32 bit for bit. A line says when
    one had to be rounded. --scale, --mean and --std, which say how its pixels are normalised, are kept in it.
    """
    from ...checkpoints import hdf5, load
    from ...present.render import terminal

    if not path.endswith(".h5"):
        raise UsageError(f"the file must be called NAME.h5, not {path}")
    given = {name: value for name, value in normalisation.items() if value is not None}
    for name, value in given.items():
        check_normalisation(name, value)
    found = load.load(prefix, epoch, trust_symbol)
    hdf5.save(path, found._replace(attributes={**found.attributes, **given}))
    terminal.notice(found.notice)
    terminal.say(path)
