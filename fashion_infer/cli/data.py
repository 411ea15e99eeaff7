"""The command `fashion-infer data`."""

import click

from ..present.render import terminal
from . import options
from .groups import ExampleGroup


@click.group(
    "data", cls=ExampleGroup, following="fashion-infer data info", examples=("data info", ("data fetch", "a network"))
)
def command():
    """Find or download the dataset."""


@command.command(
    "info", examples=("data info", ("data info --data own --data-dir pictures/", "a folder of pictures for each class"))
)
@options.takes(*options.OWN_DATA)
def info(data_dir, data, images, labels):
    """Show the folders in which Fashion-MNIST is searched for and what is there, or describe your own dataset."""
    from ..data import dataset, locate, own
    from ..present import environment
    from ..system import cache_limits, paths

    if dataset.source_of(data, data_dir, images, labels) == dataset.OWN:
        terminal.show([environment.own_dataset(own.load(data_dir, images, labels))])
        return
    rows = []
    for location in locate.locations(data_dir):
        states = [locate.inspect(location.path, split) or "ok" for split in ("test", "train")]
        rows.append([location.what, location.path, *(s if s in ("ok", "missing") else "damaged" for s in states)])
    terminal.show([environment.datasets([*rows, ["built in", "", "ok (synthetic)", ""]])])
    found = [(kind.folder, [entry.size for entry in cache_limits.entries(kind)]) for kind in cache_limits.KINDS]
    folder = paths.cache() or "no folder, because you have no home folder"
    terminal.show([environment.kept(str(folder), found, cache_limits.bound(), cache_limits.BOUND)])


@command.command(
    "fetch", examples=(("data fetch", "a network"), ("data fetch --train --to fashion-mnist", "a network"))
)
@click.option("--to", metavar="DIR", help="Folder for the files [default: fashion-mnist in your cache folder].")
@click.option("--train", is_flag=True, help="Download the training set, too (26 MB more).")
def fetch(to, train):
    """Download Fashion-MNIST (4.4 MB) and verify its MD5 sums. Run it again to resume after an interruption."""
    from ..data import locate

    for split in ("test", "train") if train else ("test",):
        folder = locate.fetch(to, split)
    terminal.say(f"Fashion-MNIST is in {folder}")
