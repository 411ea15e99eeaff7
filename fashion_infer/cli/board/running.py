"""The commands of whoever runs a board: serve, finalise, export, backup, restore, estimate."""

import time

import click

from ...errors import CheckFailed, UsageError
from .. import options
from ..groups import Command
from .opening import STORE, of_class, takes_store


@click.command(
    "serve",
    cls=Command,
    examples=("board serve", "board serve --data board --port 8408 --ray auto", "board serve --ray off --cpu-slots 2"),
)
@options.takes(
    *STORE,
    click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Where to listen."),
    click.option("--port", type=click.IntRange(1, 65535), default=8408, show_default=True),
    click.option("--ray", metavar="auto|off|ADDRESS", default="auto", show_default=True,
                 help="Of a Ray cluster; auto starts one on this machine, off does without."),
    click.option("--cpu-slots", type=click.IntRange(1, 1024), default=1, show_default=True,
                 help="Submissions of CPU classes side by side, on this machine."),
    click.option("--certificate", metavar="FILE.pem", help="For TLS."),
    click.option("--key", metavar="FILE.pem", help="For TLS."),
    click.option("--proxies", metavar="ADDRESS,...", help="Of proxies that have TLS, and whose headers are believed."),
    click.option("--grader", metavar="COMMAND", help="In place of `fashion-infer grade`, with the same options."),
)  # fmt: skip
def serve(**values):
    """Run a board: the service, its queue, and where none is named a Ray for it."""
    from ... import board

    board.require(*([] if values["ray"] == "off" else ["ray"]))
    from ...board.serving import serve as run
    from ...board.settings import Settings

    run(Settings(**values))


@click.command("finalise", cls=Command, examples=("board finalise", "board finalise --class ece408-fa26 --leaders 20"))
@click.option("--leaders", type=click.IntRange(1, 1000), default=10, show_default=True, help="Places to run again.")
@click.option("--early", is_flag=True, help="Although the deadline is still to come.")
@takes_store(of_class)
def finalise(store, leaders, early, of_class):
    """Run the leaders' submissions five times more, on fresh seeds; their medians rank. The board must be serving.

    It can be interrupted and called again: what is in is kept.
    """
    from ...board.store import finalising, people
    from ...board.store.models import Class
    from ...present.render import terminal

    with store.read() as session:
        found = people.the_class(session, of_class)
        if not early:
            finalising.check(session, found)
    last = None
    while True:
        with store.write() as session:
            the_class = session.get_one(Class, found.id)
            fresh = finalising.queue_leaders(session, the_class, leaders)
            left = finalising.runs_left(session, the_class)
            final = not fresh and finalising.close(session, the_class)
        if not fresh and not left:
            break
        if left != last:
            terminal.notice(f"{left} runs to go")
            last = left
        time.sleep(1)
    if not final:
        raise CheckFailed("nobody has a rank: there is nothing to finalise")
    terminal.notice("the ranking is final: board export has it")


@click.command(
    "export", cls=Command, examples=("board export > ranking.csv", "board export --class ece408-fa26 --out ranking.csv")
)
@click.option("--out", metavar="FILE.csv", help="[default: standard output]")
@takes_store(of_class)
def export(store, out, of_class):
    """Write a class's ranking and points as CSV."""
    from pathlib import Path

    from ...board import exporting
    from ...board.store import people
    from ...errors import DataError
    from ...system.files import replacing

    with store.read() as session:
        text = exporting.as_csv(session, people.the_class(session, of_class))
    if out is None:
        click.echo(text, nl=False)
        return
    with replacing(out, DataError) as temporary:
        Path(temporary).write_text(text, encoding="utf-8")


@click.command(
    "backup", cls=Command, examples=("board backup monday.sqlite", "board backup monday.sqlite --data board")
)
@click.argument("file", metavar="FILE.sqlite")
@takes_store()
def backup(store, file):
    """Write all of a board into one file, while it goes on. The file is as secret as the board's folder."""
    from ...board import exporting

    exporting.backup(store, file)


@click.command(
    "restore", cls=Command, examples=("board restore monday.sqlite", "board restore monday.sqlite --data other")
)
@click.argument("file", metavar="FILE.sqlite")
@takes_store(makes=True)
def restore(store, file):
    """Fill an empty board from a backup, of whatever database the two are."""
    from ...board import exporting

    exporting.restore(file, store)


@click.command(
    "estimate", cls=Command, examples=("board estimate", "board estimate --people 300 --seconds 30 --wait 60")
)
@options.takes(
    click.option("--people", type=click.IntRange(1, 100_000), default=300, show_default=True),
    click.option("--submissions", type=options.Number(min=0.01, max=1000), default=12.0, show_default=True,
                 help="Of a person, on average."),
    click.option("--days", type=options.Number(min=0.1, max=365), default=14.0, show_default=True,
                 help="From the first submission to the deadline."),
    click.option("--rush-hours", type=options.Number(min=0.1), default=24.0, show_default=True,
                 help="Mean time before the deadline at which people submit."),
    click.option("--seconds", type=options.Number(min=0.01), default=30.0, show_default=True,
                 help="Of a judging: `board status` says what yours take."),
    click.option("--wait", type=options.Number(min=0.1), default=300.0, show_default=True,
                 help="Seconds that 95 of 100 may wait at the most."),
)  # fmt: skip
def estimate(people, submissions, days, rush_hours, seconds, wait):
    """Estimate how many GPUs a class needs at its deadline, by simulating its queue."""
    from ...board import estimating

    if people * submissions > 2_000_000:
        raise UsageError("that is more than 2,000,000 submissions")
    request = estimating.Request(people, submissions, days, rush_hours, seconds)
    found = estimating.estimate(request, wait)
    click.echo(" GPUs  median wait  95% wait within  longest wait  busy on the last day  last verdict after the end")
    for one in found:
        click.echo(
            f"{one.graders:5d}  {one.median:9.0f} s  {one.p95:13.0f} s  {one.longest:10.0f} s  {one.busy:20.0%}  "
            f"{one.after_deadline:24.0f} s"
        )
    if found[-1].p95 > wait:
        raise CheckFailed(f"{found[-1].graders} GPUs are not enough")
    click.echo(f"{found[-1].graders} GPUs: 95 of 100 wait no longer than {wait:g} s")
