"""The command `fashion-infer models`."""

import click

from ..errors import UsageError
from ..present.render import terminal
from ..request import check_normalisation
from . import options
from .groups import ExampleGroup

_EDITION = options.of_request(
    "edition", help="Course semester whose short model names NAME may use [default: NAME must be a full name]."
)


@click.group(
    "models",
    cls=ExampleGroup,
    following="fashion-infer models list",
    examples=("models list", "models export ece408-high --to ece408"),
)
def command():
    """List the shipped models, and convert checkpoints between formats."""


@command.command("list", examples=("models list",))
def list_models():
    """List the shipped models with their correctness, and whether the course's weights have been fetched."""
    from ..checkpoints import originals, zoo
    from ..present import environment

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
@click.option("--original", is_flag=True, help="Fetch the course's own weights from their public repository.")
@options.takes(_EDITION)
def fetch(name, original, edition):
    """Download the course's own weights of a model, and verify them by their Git blob id."""
    from ..checkpoints import originals, zoo

    name = zoo.get(name, edition).name
    if not original:
        raise UsageError(f"the shipped weights of {name} are already installed: add --original for the course's")
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
@options.takes(options.epoch, _EDITION)
def export(name, target, epoch, edition):
    """Write a shipped model as an MXNet checkpoint or as a weights file of mini-dnn, without changing any weight."""
    from ..checkpoints import minidnn, mxnet_pair, zoo

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
    click.option("--to", "path", metavar="FILE.h5", required=True, help="File to write."),
)
def import_pair(prefix, epoch, trust_symbol, path, **normalisation):
    """Write an MXNet checkpoint, or a weights-86.bin, as one HDF5 file.

    The file has the weights that the network uses, as float32. A weight that is not a float32 is rounded, and a line
    says so. The values of --scale, --mean and --std, which say how pixels are normalised, are stored in the file.
    """
    from ..checkpoints import hdf5, load

    if not path.endswith(".h5"):
        raise UsageError(f"--to must end in .h5, as in NAME.h5: {path} does not")
    given = {name: value for name, value in normalisation.items() if value is not None}
    for name, value in given.items():
        check_normalisation(name, value)
    found = load.load(prefix, epoch, trust_symbol)
    hdf5.save(path, found._replace(attributes={**found.attributes, **given}))
    terminal.notice(found.notice)
    terminal.say(path)
