"""Opens a board's database for the commands that run the board."""

import click

from .. import options

data = click.option("--data", metavar="DIR", default="board", show_default=True, help="Folder of the board.")
database = click.option(
    "--database",
    metavar="URL",
    envvar="FASHION_INFER_BOARD_DATABASE",
    help="URL of a PostgreSQL database, postgresql://USER@HOST/NAME [default: $FASHION_INFER_BOARD_DATABASE, else "
    "SQLite in the board's folder].",
)
of_class = click.option("--class", "of_class", metavar="NAME", help="The class [default: the only one].")
STORE = (data, database)


def takes_store(*more, makes=False):
    """Return a decorator that passes the opened store first; with `makes`, a missing board is created on success."""

    def decorate(function):
        def command(data, database, **values):
            from ... import board

            board.require()
            from ...board.store.database import opened

            with opened(data, database, makes) as store:
                return function(store, **values)

        command.__doc__, command.__name__ = function.__doc__, function.__name__
        return options.takes(*more, *STORE)(command)

    return decorate
