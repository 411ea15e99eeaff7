"""What a report is made of: sections of paragraphs, tables and pictures, in a form that knows of no markup."""

from typing import Any, List, NamedTuple, Optional, Sequence, Tuple, Union


class Cell(NamedTuple):
    """A table's cell: what it shows, and the number that it is sorted by (None: by its text)."""

    text: str
    value: Optional[float] = None


class Column(NamedTuple):
    """A table's column; numbers are set right."""

    name: str
    numeric: bool = False


class Table(NamedTuple):
    """Rows of as many cells as there are columns."""

    caption: str
    columns: Tuple[Column, ...]
    rows: List[Tuple[Cell, ...]]
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
    """The command that makes the figures after it again."""

    text: str
    kind: str = "command"


class Picture(NamedTuple):
    """A PNG beside the pages, and what it shows in words."""

    file: str
    alt: str
    kind: str = "picture"


Part = Union[Table, Text, Output, Missing, Command, Picture]


class Section(NamedTuple):
    """A chapter of the report."""

    name: str  # of its anchor
    title: str
    parts: List[Part]


class Report(NamedTuple):
    """The whole report."""

    title: str
    facts: List[str]  # what was run, where and when: a line each
    sections: List[Section]


def table(caption: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    """A table of plain values.

    Parameters
    ----------
    columns
        Names; one that begins with ">" holds numbers.
    rows
        Cells as strings, as numbers (shown as they are) or as (number, text); None is an empty cell.
    """
    made = tuple(Column(name.lstrip(">"), name.startswith(">")) for name in columns)
    return Table(caption, made, [tuple(map(_cell, row)) for row in rows])


def number(value: Optional[float], form: str) -> Optional[Tuple[float, str]]:
    """A number as `table` takes it, in the given format; None stays None."""
    return None if value is None else (value, format(value, form))


def _cell(value) -> Cell:
    if value is None:
        return Cell("")
    if isinstance(value, tuple):
        return Cell(value[1], float(value[0]))
    if isinstance(value, (int, float)):
        return Cell(str(value), float(value))
    return Cell(str(value))
