"""Content as HTML."""

import base64
import re
from pathlib import Path
from typing import List

from ..charts import figure
from ..content import Page, Part, Table
from .jinja import environment


def page(content: Page, folder: Path) -> str:
    """A whole page: style, script and the folder's pictures are in it, and it asks for nothing outside itself."""
    from markupsafe import Markup, escape

    def uri(file: str) -> str:
        return "data:image/png;base64," + base64.b64encode((folder / file).read_bytes()).decode()

    def drawing(file: str) -> Markup:
        return Markup(_inline((folder / file).read_text(encoding="utf-8")))

    def command(text: str) -> Markup:
        """Lines break before an option, never within one, nor between it and its value."""
        return Markup(" ").join(Markup("<span>{}</span>").format(part) for part in re.split(r" (?=-)", text))

    def prose(text: str) -> Markup:
        """A line does not break behind the hyphens of an option."""
        return Markup(re.sub(r"(?<![\w-])--[\w-]+", r'<span class="option">\g<0></span>', str(escape(text))))

    templates = environment(escape=True)
    templates.filters.update(drawing=drawing, command=command, prose=prose, named_first=_named_first)
    return templates.get_template("page.html").render(page=content, uri=uri, palette=figure.style())


def fragment(parts: List[Part]) -> str:
    """Texts and tables for a notebook, which has a style of its own."""
    return environment(escape=True).get_template("fragment.html").render(parts=parts)


def _inline(drawing: str) -> str:
    """An SVG file as an element of a page: its size and colours are the page's, and it is seen as one picture."""
    drawing = re.sub(r"<style>.*?</style>", "", drawing, count=1, flags=re.DOTALL)
    head, end, rest = drawing.partition(">")
    box = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', head)
    wide = float(box.group(1)) > 1.1 * 72 * figure.WIDTH
    return f'<svg {box.group()} aria-hidden="true" class="{"wide-drawing" if wide else "drawing"}"{end}{rest.strip()}'


def _named_first(table: Table) -> Table:
    """The table with what names its rows in front: it is what stays in sight where the rest scrolls."""
    if not table.listing:
        return table

    def turned(row):
        return (row[-1], *row[:-1])

    return table._replace(columns=turned(table.columns), rows=[turned(row) for row in table.rows])
