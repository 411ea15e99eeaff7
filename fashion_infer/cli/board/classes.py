"""`board class` and `board join`: commands for a board's classes, the classes' limits, and the people in them."""

import csv
import io
import re
from pathlib import Path

import click

from ...errors import DataError, UsageError
from .. import options
from ..groups import ExampleCommand, ExampleGroup
from .store import of_class, takes_store

_LIMITS = (
    # option, metavar, type, help, default in `board class new`
    ("--deadline", "WHEN", str,
     "Deadline in ISO 8601 with a time zone, such as 2026-12-05T23:59-06:00; `none` for no deadline", "none"),
    ("--gpu-seconds", "S", options.Number(min=0, min_open=True),
     "Maximum total device time per person, in seconds", "no limit"),
    ("--cudnn-ms", "MS", options.Number(min=0, min_open=True),
     "Time of cuDNN for the edition's layers in milliseconds, drawn as a line in the page's chart", "no line"),
    ("--most-bytes", "N", click.IntRange(1, 32 << 20), "Maximum size of a submission in bytes", "1 MiB"),
    ("--most-pending", "N", click.IntRange(1), "Maximum number of queued and running submissions per person", "4"),
    ("--most-an-hour", "N", click.IntRange(1), "Maximum number of submissions per person and hour", "30"),
    ("--most-tests-an-hour", "N", click.IntRange(1), "Maximum number of tests per person and hour", "10"),
)  # fmt: skip


def _limit_options(with_defaults):
    """Return the options for a class's limits. `class set` has no defaults: a limit that is not given stays."""
    return [
        click.option(
            name, metavar=metavar, type=kind, help=f"{text} [default: {usual}]." if with_defaults else f"{text}."
        )
        for name, metavar, kind, text, usual in _LIMITS
    ]


@click.group(
    "class",
    cls=ExampleGroup,
    following="fashion-infer board class new --help",
    examples=("board class new ece408-fa26 --edition fa2025", "board class list"),
)
def classes():
    """Add, list and change classes."""


def _deadline(values):
    from ...board.store.class_settings import moment

    text = values["deadline"]
    return None if text in (None, "none") else moment(text, f"--deadline {text}")


def _limits(values):
    return {name: value for name, value in values.items() if value is not None and name != "deadline"}


@classes.command(
    "new",
    examples=(
        "board class new ece408-fa26 --edition fa2025",
        "board class new practice --backend cpu --gpu-seconds 600",
    ),
)
@click.argument("class_name", metavar="NAME")
@click.option("--edition", metavar="NAME", help="Course semester [default: the rubric's, or fa2017 without --rubric].")
@click.option(
    "--rubric",
    metavar="FILE.toml",
    help="Rubric by which submissions are graded (see `grade --print-rubric`) [default: the edition's].",
)
@click.option(
    "--backend",
    type=click.Choice(["cpu", "gpu"]),
    help="Where submissions run [default: the rubric's backend, or gpu if that is auto].",
)
@takes_store(*_limit_options(with_defaults=True), makes=True)
def new(store, class_name, edition, rubric, backend, **limits):
    """Add a class."""
    from ...board.store import people
    from ...grading import rubric as rubrics

    asked = rubrics.read(rubric, edition) if rubric else rubrics.default(edition or "fa2017")
    text = Path(rubric).read_text(encoding="utf-8") if rubric else rubrics.default_text(asked.edition)
    if rubric and edition:
        text = re.sub(r"(?m)^edition\s*=.*$", f'edition = "{asked.edition}"', text, count=1)
    where = backend or (asked.backend if asked.backend != "auto" else "gpu")
    deadline = _deadline(limits)
    with store.write() as session:
        people.new_class(session, class_name, asked.network, where, text, deadline, **_limits(limits))
    then = f"board join --class {class_name} people.csv > tokens.csv"
    click.echo(f"class {class_name}: {asked.network} on the {where}; next: {then}")


@classes.command(
    "set",
    examples=(
        "board class new ece408-fa26 --edition fa2025",
        "board class set ece408-fa26 --open-names",
        "board class set ece408-fa26 --deadline 2026-12-05T23:59-06:00",
    ),
)
@click.argument("class_name", metavar="NAME")
@click.option("--open-names/--pseudonyms", default=None, help="Show people's names or pseudonyms in the ranking.")
@takes_store(*_limit_options(with_defaults=False))
def change(store, class_name, open_names, **limits):
    """Change a class's deadline, its limits, or whether its ranking shows names. Other settings stay as they are."""
    from ...board.store import people
    from ...board.store.audit import record

    changes = _limits(limits)
    if open_names is not None:
        changes["names_open"] = open_names
    if limits["deadline"] is not None:
        changes["deadline"] = _deadline(limits)
    if not changes:
        raise UsageError("there is nothing to change: give at least one option, such as --deadline")
    with store.write() as session:
        found = people.the_class(session, class_name)
        for field, value in changes.items():
            setattr(found, field, value)
        record(session, "command line", "class set", ", ".join(f"{f} = {v}" for f, v in changes.items()), found.id)


@classes.command("list", examples=("board class new ece408-fa26 --edition fa2025", "board class list"))
@takes_store()
def every(store):
    """List the board's classes."""
    from sqlalchemy import func, select

    from ...board.store.models import Class, Person

    with store.read() as session:
        for one in session.scalars(select(Class).order_by(Class.name)):
            count = session.scalar(select(func.count()).select_from(Person).where(Person.class_id == one.id))
            until = f"until {one.deadline:%Y-%m-%d %H:%M} UTC" if one.deadline else "no deadline"
            click.echo(f"{one.name}: {one.edition} on the {one.backend}, {count} people, {until}")


@click.command(
    "join",
    cls=ExampleCommand,
    examples=(
        "board class new ece408-fa26",
        ("board join --class ece408-fa26 people.csv > tokens.csv", "people.csv, with a name per line"),
        ("board join --revoke people.csv", "people.csv, with a name per line"),
    ),
)
@click.argument("people", metavar="PEOPLE.csv")
@click.option("--revoke", is_flag=True, help="Revoke all tokens of these people instead of adding people.")
@takes_store(of_class)
def join(store, people, revoke, of_class):
    """Add people to a class, and print a token for each person as CSV. The board cannot print these tokens again.

    PEOPLE.csv has one person per line: the name and, optionally, the role (student, assistant or instructor) and the
    team. If the first line has the words name, role and team, it gives the order of the columns. People who are already
    in the class get an additional token, and keep their role and team if the file has no such column.
    """
    from ...board.store import class_settings
    from ...board.store import people as persons

    try:
        text = click.get_text_stream("stdin").read() if people == "-" else Path(people).read_text(encoding="utf-8-sig")
        rows = class_settings.listed(text, most=10**6)
    except UnicodeDecodeError as error:
        raise UsageError(f"{people} is not CSV: {error}") from None
    except OSError as error:
        raise DataError(f"{people}: {error.strerror}") from None
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    with store.write() as session:
        found = persons.the_class(session, of_class)
        if revoke:
            for name, _, _ in rows:
                person = persons.find_person(session, found, name)
                if person is None:
                    raise UsageError(f"{found.name} has nobody called {name}")
                persons.revoke(session, person)
        else:
            writer.writerow(("name", "role", "team", "token"))
            for one in persons.join(session, found, rows):
                team = one.person.team.name if one.person.team else ""
                writer.writerow((one.person.name, one.person.role, team, one.token))
    click.echo(out.getvalue(), nl=False)  # after the transaction, so that only stored tokens are shown
