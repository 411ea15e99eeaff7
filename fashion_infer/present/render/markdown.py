"""Renders content as Markdown."""

import re

from ..content import Cell, Page
from . import environment


def page(content: Page) -> str:
    """Render a whole page. It refers to its pictures by file name; they must be in the page's folder."""
    templates = environment(escape=False)
    templates.filters["cell"] = _cell
    templates.filters["plain"] = _plain
    text = templates.get_template("page.md").render(page=content)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def _cell(cell: Cell) -> str:
    return _plain(cell.text).replace("|", "\\|").replace("\n", "<br>")


def _plain(text: str) -> str:
    return re.sub(r"([\\`*_<>\[\]])", r"\\\1", text)
