"""Content of a page or screen: sections of paragraphs, tables and pictures, without markup."""

from typing import Any, Collection, FrozenSet, List, NamedTuple, Optional, Sequence, Tuple, Union

from ..system.text import shown


class Cell(NamedTuple):
    """A table's cell: the text that it shows, and the number that it is sorted by (None: by its text)."""

    text: str
    value: Optional[float] = None


class Column(NamedTuple):
    """A table's column. Numbers are set right."""

    name: str
    numeric: bool = False
    detail: bool = False  # left out on a terminal, whose lines are short


class Table(NamedTuple):
    """Rows of as many cells as there are columns."""

    caption: str
    columns: Tuple[Column, ...]
    rows: List[Tuple[Cell, ...]]
    detail_rows: FrozenSet[int] = frozenset()  # indices of rows that are left out on a terminal
    listing: bool = False  # whether a terminal prints it as nvprof did: the last column, of long names, never folded
    folded: bool = False  # whether a page shows it only when asked to
    kind: str = "table"


class Text(NamedTuple):
    """A paragraph of plain text."""

    text: str
    kind: str = "text"


class Output(NamedTuple):
    """Lines as a program printed them."""

    text: str
    kind: str = "output"


class Missing(NamedTuple):
    """Why something is not here: hardware or software that this machine lacks, or that was not asked for."""

    text: str
    kind: str = "missing"


class Command(NamedTuple):
    """The command that gives the figures after it again."""

    text: str
    kind: str = "command"


class Picture(NamedTuple):
    """A PNG or SVG beside the pages, and in words what it shows. A terminal leaves it out."""

    file: str
    alt: str
    kind: str = "picture"


class Fact(NamedTuple):
    """Headline figure: its name, its value, and the thing that it measures."""

    name: str
    figure: str
    note: str = ""
    state: str = ""  # "ok" or "wrong" of a verdict


class Strip(NamedTuple):
    """The facts that stand above everything else, side by side."""

    facts: List[Fact]
    kind: str = "strip"


Part = Union[Table, Text, Strip, Output, Missing, Command, Picture]


class Section(NamedTuple):
    """A chapter of a page."""

    name: str  # name of its anchor
    title: str
    parts: List[Part]


class Page(NamedTuple):
    """A whole page."""

    title: str
    head: List[Part]  # before the first section: what was run, where and when
    sections: List[Section]
    badge: str = ""  # behind the title, of what all of the page is


def table(
    caption: str,
    columns: Sequence[Union[str, Column]],
    rows: Sequence[Sequence[Any]],
    detail_rows: Collection[int] = (),
    listing: bool = False,
) -> Table:
    """A table of plain values.

    Parameters
    ----------
    columns
        Columns, or their names; a name that begins with ">" is that of a column of numbers.
    rows
        Cells as strings, as numbers (shown as they are) or as (number, text); None is an empty cell.
    detail_rows, listing
        See `Table`.
    """
    known = tuple(c if isinstance(c, Column) else Column(c.lstrip(">"), c.startswith(">")) for c in columns)
    return Table(caption, known, [tuple(map(_cell, row)) for row in rows], frozenset(detail_rows), listing)


def number(value: Optional[float], form: str) -> Optional[Tuple[float, str]]:
    """A number as `table` takes it, in the given format; None stays None."""
    return None if value is None else (value, format(value, form))


def percent(share: Optional[float], digits: int = 1) -> Optional[Tuple[float, str]]:
    """A share of 1 as a percentage."""
    return None if share is None else (100 * share, f"{share:.{digits}%}")


def _cell(value) -> Cell:
    if value is None:
        return Cell("")
    if isinstance(value, tuple):
        return Cell(_shown(value[1]), float(value[0]))
    if isinstance(value, (int, float)):
        return Cell(str(value), float(value))
    return Cell(_shown(str(value)))


def _shown(text: str) -> str:
    """A cell may have several lines: what shows it on one says so."""
    return "\n".join(map(shown, text.split("\n")))
