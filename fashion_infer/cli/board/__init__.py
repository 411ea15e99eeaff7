"""`fashion-infer board`: run a class leaderboard or query it."""

import click

from ..groups import ExampleGroup
from . import classes, client, server


@click.group(
    "board",
    cls=ExampleGroup,
    following="fashion-infer board serve --help",
    examples=("board class new ece408-fa26", ("board serve", "Ctrl-C to end it"), ("board ranking", client.JOINED)),
)
def command():
    """Run a class's board, or query one."""


for one in (
    server.serve,
    classes.classes,
    classes.join,
    server.finalise,
    server.export,
    server.backup,
    server.restore,
    client.login,
    client.status,
    client.log,
    client.cancel,
    client.history,
    client.ranking,
):
    command.add_command(one)
