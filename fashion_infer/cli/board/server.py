"""The commands for running a board: serve, finalise, export, backup, restore."""

import time

import click

from ...errors import CheckFailed
from ...present.render import terminal
from .. import options
from ..groups import ExampleCommand
from .store import STORE, of_class, takes_store


@click.command(
    "serve",
    cls=ExampleCommand,
    examples=(
        ("board serve", "Ctrl-C to end it"),
        ("board serve --ray off --cpu-slots 2 --data board --port 8408", "Ctrl-C to end it"),
    ),
)
@options.takes(
    *STORE,
    click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Address to listen on."),
    click.option("--port", type=click.IntRange(1, 65535), default=8408, show_default=True, help="Port to listen on."),
    click.option(
        "--ray",
        metavar="auto|off|ADDRESS",
        default="auto",
        show_default=True,
        help="Address of the Ray cluster that judges; auto starts one on this machine, off uses none.",
    ),
    click.option(
        "--cpu-slots",
        type=click.IntRange(1, 1024),
        default=1,
        show_default=True,
        help="Number of CPU submissions judged at the same time on this machine.",
    ),
    click.option("--certificate", metavar="FILE.pem", help="TLS certificate of the server."),
    click.option("--key", metavar="FILE.pem", help="Private key of the TLS certificate."),
    click.option("--proxies", metavar="ADDRESS,...", help="TLS proxies whose X-Forwarded headers are trusted."),
    click.option("--grader", metavar="COMMAND", help="Command to run for judging, instead of `fashion-infer grade`."),
    click.option("--json-logs", is_flag=True, help="Log all events as lines of JSON, not only warnings as text."),
)
def serve(**values):
    """Run a board: the web service, its queue and its graders."""
    from ... import board

    board.require(ray=values["ray"] != "off")
    from ...board import BoardSettings
    from ...board.server import serve as run

    run(BoardSettings(**values), terminal.notice)


@click.command(
    "finalise",
    cls=ExampleCommand,
    examples=(("board finalise --class ece408-fa26 --leaders 20", "a class whose deadline has passed"),),
)
@click.option(
    "--leaders",
    type=click.IntRange(1, 1000),
    default=10,
    show_default=True,
    help="Number of places, from the top of the ranking, whose submissions run again.",
)
@click.option("--early", is_flag=True, help="Finalise even before the deadline.")
@takes_store(of_class)
def finalise(store, leaders, early, of_class):
    """Run the leaders' submissions five more times with fresh seeds, and rank them by their median times.

    `board serve` must be running. You may interrupt this command and call it again: finished runs are kept.
    """
    from ...board.page import rendering
    from ...board.store import final_runs, people
    from ...board.store.models import Class

    with store.read() as session:
        found = people.the_class(session, of_class)
        if not early:
            final_runs.check(session, found)
    last = None
    while True:
        with store.write() as session:
            the_class = session.get_one(Class, found.id)
            fresh = final_runs.queue_leaders(session, the_class, leaders)
            left = final_runs.runs_left(session, the_class)
            seconds = final_runs.seconds_left(session, the_class)
            final = not fresh and final_runs.close(session, the_class)
        if not fresh and not left:
            break
        if left != last:
            terminal.notice(f"{left} runs to go{f', about {rendering.seconds(seconds)}' if seconds else ''}")
            last = left
        time.sleep(1)
    if not final:
        raise CheckFailed("the class has no ranked submission: there is nothing to finalise")
    terminal.notice("the ranking is final: see board export")


@click.command(
    "export",
    cls=ExampleCommand,
    examples=(
        "board class new ece408-fa26",
        "board export > ranking.csv",
        "board export --format canvas --out grades.csv",
    ),
)
@click.option("--out", metavar="FILE.csv", help="File to write [default: standard output].")
@click.option(
    "--format",
    "kind",
    type=click.Choice(["ranking", "marks", "canvas", "moodle"]),
    default="ranking",
    show_default=True,
    help="Columns of the file: the ranking, the points, or what Canvas or Moodle imports.",
)
@takes_store(of_class)
def export(store, out, kind, of_class):
    """Write a class's ranking or marks as CSV."""
    from pathlib import Path

    from ...board import marks
    from ...board.store import people
    from ...errors import DataError
    from ...system.files import replacing

    with store.read() as session:
        text = marks.as_csv(session, people.the_class(session, of_class), kind)
    if out is None:
        click.echo(text, nl=False)
        return
    with replacing(out, DataError) as temporary:
        Path(temporary).write_text(text, encoding="utf-8")


@click.command("backup", cls=ExampleCommand, examples=("board class new ece408-fa26", "board backup monday.sqlite"))
@click.argument("file", metavar="FILE.sqlite")
@takes_store()
def backup(store, file):
    """Write the whole board into one file. The board may be running. Keep the file as secret as the board's folder."""
    from ...board import backup

    backup.write(store, file)


@click.command(
    "restore",
    cls=ExampleCommand,
    examples=("board class new ece408-fa26", "board backup monday.sqlite", "board restore monday.sqlite --data other"),
)
@click.argument("file", metavar="FILE.sqlite")
@takes_store(makes=True)
def restore(store, file):
    """Fill an empty board from a backup. The two boards may use different databases, SQLite or PostgreSQL."""
    from ...board import backup

    backup.restore(file, store)
