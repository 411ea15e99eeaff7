"""`fashion-infer board`: to run a board, and to ask one."""

import click

from ..groups import Group
from . import asking, classes, running


@click.group(
    "board", cls=Group, following="fashion-infer board serve --help", examples=("board serve", "board ranking")
)
def command():
    """The class's board: people submit, a queue judges, a ranking shows where one stands."""


for one in (running.serve, classes.classes, classes.join, running.finalise, running.export, running.backup,
            running.restore, running.estimate, asking.login, asking.status, asking.log, asking.cancel, asking.history,
            asking.ranking):  # fmt: skip
    command.add_command(one)
