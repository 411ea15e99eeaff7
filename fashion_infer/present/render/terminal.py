"""Prints content as plain text, for a terminal, a pipe or a file: results on stdout, notices on stderr."""

from typing import Any, Dict, Iterable, Optional

import click

from ...system.text import json_text, shown
from ..content import Command, Folded, Part, Picture, Strip, Table

_LEAST_TEXT = 20  # minimum width of a column of text, in characters; longer words are broken
_PIPE = 120  # width of the output in characters for a file or a pipe
_BETWEEN = 3  # width of a table's frame per column, in characters
_COLOURS = {"ok": "green", "WRONG": "bold red"}  # colours of verdicts on a terminal; rich omits them with NO_COLOR
_LISTED = 9  # minimum width of a listing's columns in characters, as in nvprof's output


def notice(text: Optional[str]) -> None:
    """Print one line on stderr, or nothing if the text is None or empty."""
    if text:
        click.echo(f"fashion-infer: {shown(text)}", err=True)


def say(text: str) -> None:
    click.echo(shown(text))


def show_json(data: Dict[str, Any]) -> None:
    click.echo(json_text(data))


def show(parts: Iterable[Part]) -> None:
    """Print parts of content on stdout, without pictures and without the details of tables."""
    for part in parts:
        if isinstance(part, Table):
            (_list if part.listing else _show)(_short(part))
        elif isinstance(part, Command):
            say(f"  $ {part.text}")
        elif isinstance(part, Strip):
            for fact in part.facts:
                say(f"{fact.name}: {fact.figure}{', ' if fact.note else ''}{fact.note}")
        elif isinstance(part, Folded):
            show(part.parts)
        elif not isinstance(part, Picture):
            _lines(part.text)


def _lines(text: str) -> None:
    for line in text.split("\n"):
        say(line)


def _short(table: Table) -> Table:
    """Return the table without its details (`Column.detail`, `Table.detail_rows`), with each cell on one line."""
    kept = [index for index, column in enumerate(table.columns) if not column.detail]
    rows = [row for index, row in enumerate(table.rows) if index not in table.detail_rows]
    return table._replace(
        columns=tuple(table.columns[i] for i in kept),
        rows=[tuple(row[i]._replace(text=shown(row[i].text)) for i in kept) for row in rows],
    )


def _show(table: Table) -> None:
    """Print a table, whose headers and text wrap on a narrow screen, and which is wider than that if necessary."""
    from rich import box
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    if table.caption:
        _lines(f"\n{table.caption}")
    # A name may contain [brackets] and :colons:, which rich must print unchanged.
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = _PIPE
    grid, room = RichTable(box=box.SIMPLE_HEAD), 1
    for index, column in enumerate(table.columns):
        words = " ".join([column.name, *(row[index].text for row in table.rows)]).split()
        longest = max(map(cell_len, words), default=0)
        least = longest if column.numeric else min(longest, _LEAST_TEXT)
        room += least + _BETWEEN
        grid.add_column(column.name, justify="right" if column.numeric else "left", overflow="fold", min_width=least)
    for row in table.rows:
        grid.add_row(*(Text(cell.text, _COLOURS.get(cell.text, "")) for cell in row))
    console.width = max(console.width, room)
    with console.capture() as drawn:  # rich would turn a broken pipe into an exit with code 1
        console.print(grid, crop=False)
    click.echo(drawn.get(), nl=False)


def _list(table: Table) -> None:
    """Print a table as plain lines. Names are in the last column and never cut, as they end with template arguments."""
    say(f"{table.caption}:")
    lines = [tuple(column.name for column in table.columns), *(tuple(cell.text for cell in row) for row in table.rows)]
    for line in lines:
        click.echo(" ".join(f"{text:>{_LISTED}}" for text in line[:-1]) + f"  {line[-1]}")
    if not table.rows:
        click.echo("  (none)")
    click.echo()
