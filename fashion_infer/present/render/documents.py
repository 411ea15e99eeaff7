"""Renders content as HTML and as Markdown."""

import base64
import re
from pathlib import Path
from typing import List

from ..charts import figure
from ..content import Cell, Page, Part, Table


def html_page(content: Page, folder: Path) -> str:
    """Render a whole page. It contains its style, its script and the pictures from `folder`, and loads nothing else."""
    from markupsafe import Markup, escape

    def uri(file: str) -> str:
        return "data:image/png;base64," + base64.b64encode((folder / file).read_bytes()).decode()

    def drawing(file: str) -> Markup:
        return Markup(_inline((folder / file).read_text(encoding="utf-8")))

    def command(text: str) -> Markup:
        """Mark up a command so that lines break only before an option, not within an option or before its value."""
        return Markup(" ").join(Markup("<span>{}</span>").format(part) for part in re.split(r" (?=-)", text))

    def prose(text: str) -> Markup:
        """Mark up `names` as code, and options such as --batch-size so that a line does not break within them."""
        text = re.sub(r"(?<![\w-])--[\w-]+", r'<span class="option">\g<0></span>', str(escape(text)))
        return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", text))

    templates = _environment(escape=True)
    templates.filters.update(drawing=drawing, command=command, prose=prose, main_first=_main_first)
    return templates.get_template("page.html").render(page=content, uri=uri, palette=figure.style())


def fragment(parts: List[Part]) -> str:
    """Render texts and tables for a notebook, without a style, because notebooks have their own."""
    return _environment(escape=True).get_template("fragment.html").render(parts=parts)


def _inline(drawing: str) -> str:
    """Convert an SVG file's text to an element that takes size and colours from the page. Screen readers skip it."""
    drawing = re.sub(r"<style>.*?</style>", "", drawing, count=1, flags=re.DOTALL)
    head, end, rest = drawing.partition(">")
    box = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', head)
    wide = float(box.group(1)) > 1.1 * 72 * figure.WIDTH
    return f'<svg {box.group()} aria-hidden="true" class="{"wide-drawing" if wide else "drawing"}"{end}{rest.strip()}'


def _main_first(table: Table) -> Table:
    """Move the column with the rows' names to the front, where it stays visible, and the main columns next to it."""
    names = len(table.columns) - 1 if table.listing else 0
    order = sorted(range(len(table.columns)), key=lambda place: (place != names, not table.columns[place].main))
    rows = [tuple(row[place] for place in order) for row in table.rows]
    return table._replace(columns=tuple(table.columns[place] for place in order), rows=rows)


def markdown_page(content: Page) -> str:
    """Render a whole page. It refers to its pictures by file name; they must be in the page's folder."""
    templates = _environment(escape=False)
    templates.filters["cell"] = _cell
    templates.filters["plain"] = _plain
    text = templates.get_template("page.md").render(page=content)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def _cell(cell: Cell) -> str:
    return _plain(cell.text).replace("|", "\\|").replace("\n", "<br>")


def _plain(text: str) -> str:
    """Escape a text for Markdown, except for `names` in it."""
    return re.sub(r"(`[^`\n]+`)|([\\`*_<>\[\]])", lambda found: found[1] or f"\\{found[2]}", text)


def _environment(escape: bool):
    """Create a Jinja environment for the folder `templates`. With `escape`, inserted values are escaped for HTML."""
    import jinja2

    return jinja2.Environment(
        loader=jinja2.PackageLoader(__package__, "templates"),
        autoescape=escape,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
