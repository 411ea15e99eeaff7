"""`fashion-infer data`."""

import click


@click.group("data")
def command():
    """The dataset: where it is, and how to get it."""


@command.command("info")
@click.option("--data-dir", metavar="DIR", help="Look here only.")
def info(data_dir):
    """Show where Fashion-MNIST is looked for and what was found there."""
    from ..data import locate
    from ..present import environment
    from ..present.render import terminal

    rows = []
    for location in locate.locations(data_dir):
        states = [locate.inspect(location.path, split) or "ok" for split in ("test", "train")]
        rows.append([location.what, location.path, *(s if s in ("ok", "missing") else "damaged" for s in states)])
    terminal.show([environment.datasets([*rows, ["built in", "", "ok (synthetic)", ""]])])


@command.command("fetch")
@click.option("--to", metavar="DIR", help="Folder [default: the user's cache].")
@click.option("--train", is_flag=True, help="The training set too (26 MB more).")
def fetch(to, train):
    """Download Fashion-MNIST (4.4 MB), verify its MD5 sums; run it again to go on after an interruption."""
    from ..data import download
    from ..present.render import terminal

    for split in ("test", "train") if train else ("test",):
        folder = download.fetch(to, split)
    terminal.say(f"Fashion-MNIST is in {folder}")
