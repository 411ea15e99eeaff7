"""Opens a board's database for the commands that run the board."""

import click

from .. import options

data = click.option("--data", metavar="DIR", default="board", show_default=True, help="The board's folder.")
database = click.option(
    "--database", metavar="URL", envvar="FASHION_INFER_BOARD_DATABASE",
    help="PostgreSQL, postgresql://USER@HOST/NAME [default: SQLite in the folder].",
)  # fmt: skip
of_class = click.option("--class", "of_class", metavar="NAME", help="The class [default: the only one].")
STORE = (data, database)


def takes_store(*more, makes=False):
    """Return a decorator that gives a command the options of a board's database, and the opened store.

    Only a command with `makes` may be used where there is no board. It creates one, and leaves none if it fails.
    """

    def decorate(function):
        def command(data, database, **values):
            from ... import board

            board.require()
            from ...board.store import creation

            with creation.opened(data, database, makes) as store:
                return function(store, **values)

        command.__doc__, command.__name__ = function.__doc__, function.__name__
        return options.takes(*more, *STORE)(command)

    return decorate
