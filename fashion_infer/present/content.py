"""Types for the content of a page or screen: sections of paragraphs, tables and pictures, without markup."""

from typing import Any, Collection, FrozenSet, List, NamedTuple, Optional, Sequence, Tuple, Union

from ..system.text import shown


class Cell(NamedTuple):
    """A table's cell: the text that it shows, and the number by which rows are sorted (None to sort by the text)."""

    text: str
    value: Optional[float] = None


class Column(NamedTuple):
    """A table's column. Columns of numbers are right-aligned."""

    name: str
    numeric: bool = False
    detail: bool = False  # whether the column is left out on a terminal, whose lines are short
    main: bool = False  # whether an HTML page moves the column next to the first, where a phone shows it
    code: bool = False  # whether an HTML page shows the column in a fixed-width font


class Table(NamedTuple):
    caption: str
    columns: Tuple[Column, ...]
    rows: List[Tuple[Cell, ...]]
    detail_rows: FrozenSet[int] = frozenset()  # indices of rows that are left out on a terminal
    listing: bool = False  # whether a terminal prints plain lines, as nvprof did: names in the last column never wrap
    stacked: bool = False  # whether a narrow HTML page shows the cells of a row below each other
    kind: str = "table"


class Text(NamedTuple):
    text: str
    kind: str = "text"


class Output(NamedTuple):
    text: str
    kind: str = "output"


class Missing(NamedTuple):
    """The reason why a part of a page is missing: this machine lacks hardware or software, or nobody requested it."""

    text: str
    kind: str = "missing"


class Command(NamedTuple):
    text: str
    kind: str = "command"


class Picture(NamedTuple):
    """A PNG or SVG file in the page's folder, and a description of the picture. A terminal does not show pictures."""

    file: str
    alt: str  # the description
    kind: str = "picture"


class Fact(NamedTuple):
    name: str
    figure: str  # the value
    state: str = ""  # "ok" or "wrong" if the fact is a verdict
    note: str = ""  # what the value measures


class Strip(NamedTuple):
    facts: List[Fact]
    kind: str = "strip"


class Folded(NamedTuple):
    """Parts that an HTML page hides behind one line until the reader opens it."""

    summary: str
    parts: List[Any]
    kind: str = "folded"


Part = Union[Table, Text, Strip, Output, Missing, Command, Picture, Folded]


class Section(NamedTuple):
    name: str  # name of the section's anchor
    title: str
    parts: List[Part]


class Page(NamedTuple):
    title: str
    head: List[Part]  # parts before the first section: what was run, where and when
    sections: List[Section]
    badge: str = ""  # label after the title, for the whole page


def column(name: str, detail: bool = False) -> Column:
    """Make a column from a name that begins with "*" if the column is a main one, then ">" if it has numbers."""
    return Column(name.lstrip("*>"), ">" in name[:2], detail, name.startswith("*"))


def table(
    caption: str,
    columns: Sequence[Union[str, Column]],
    rows: Sequence[Sequence[Any]],
    detail_rows: Collection[int] = (),
    listing: bool = False,
) -> Table:
    """Make a table of strings, numbers, pairs (number, text) and None. See `column` for names of columns."""
    known = tuple(c if isinstance(c, Column) else column(c) for c in columns)
    return Table(caption, known, [tuple(map(_cell, row)) for row in rows], frozenset(detail_rows), listing)


def number(value: Optional[float], form: str) -> Optional[Tuple[float, str]]:
    """Make a cell for `table` from a number and the format in which it is shown; return None for None."""
    if value is None:
        return None
    text = format(value, form)
    return value, f"{float(text):,.0f}" if "e+" in text else text


def percent(share: Optional[float], digits: int = 1) -> Optional[Tuple[float, str]]:
    """Make a cell for `table` that shows a share (1 is 100%) as a percentage; return None for None."""
    return None if share is None else (100 * share, f"{share:.{digits}%}")


def arithmetic(backend: str) -> Tuple[str, float]:
    """Return the unit in which a backend's arithmetic rates are shown, and the factor that converts TFLOP/s to it."""
    return ("TFLOP/s", 1.0) if backend == "gpu" else ("GFLOP/s", 1e3)


def ceiling(name: str, value: float, backend: str) -> Tuple[str, float]:
    """Convert a ceiling of `bench.ceilings`: return its description, which ends with a unit, and its value in it."""
    unit, scale = arithmetic(backend)
    for end, what, of, factor in (("_gb_s", "memory", "GB/s", 1.0), ("_tflop_s", "matrix product", unit, scale)):
        if name.endswith(end):
            return f"{what}, {name[: -len(end)]}, {of}", factor * value
    return name, value


def three_digits(value: float) -> str:
    """Round a number to three significant digits and format it: 4653.2 as 4,650."""
    return f"{float(f'{value:.3g}'):,.12g}"


def compared(ratio: float) -> str:
    """Compare a time with another one that is `ratio` times as long: "1.6 times faster than"."""
    if 0.95 < ratio < 1.05:
        return "as fast as"
    factor = max(ratio, 1 / ratio)
    figure = f"{factor:.1f}" if factor < 10 else three_digits(round(factor))
    return f"{figure} times {'faster' if ratio > 1 else 'slower'} than"


def _cell(value) -> Cell:
    if value is None:
        return Cell("")
    if isinstance(value, tuple):
        return Cell(_shown(value[1]), float(value[0]))
    if isinstance(value, (int, float)):
        return Cell(str(value), float(value))
    return Cell(_shown(str(value)))


def _shown(text: str) -> str:
    """Escape special characters in each line of a text. Line breaks are kept."""
    return "\n".join(map(shown, text.split("\n")))
