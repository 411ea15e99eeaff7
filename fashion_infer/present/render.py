"""The report's pages, from the templates beside this file."""

import base64
import re
from pathlib import Path

from .content import Cell, Report

HTML, MARKDOWN = "index.html", "report.md"


def html(report: Report, folder: Path) -> str:
    """The page as HTML: style, script and the folder's pictures are in it, and it asks for nothing outside itself."""

    def uri(file: str) -> str:
        return "data:image/png;base64," + base64.b64encode((folder / file).read_bytes()).decode()

    return _environment(True).get_template("report.html").render(report=report, uri=uri)


def markdown(report: Report) -> str:
    """The same as Markdown; the pictures lie beside the file."""
    text = _environment(False).get_template("report.md").render(report=report)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def _environment(escape: bool):
    import jinja2

    # A comment in a template is its author's; a table's cell may hold anything, kernel names with < and | included.
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("fashion_infer.present", "templates"),
        autoescape=escape,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    made.filters["cell"] = _markdown_cell
    made.filters["plain"] = _markdown_text
    return made


def _markdown_cell(cell: Cell) -> str:
    return _markdown_text(cell.text).replace("|", "\\|").replace("\n", "<br>")


def _markdown_text(text: str) -> str:
    return re.sub(r"([\\`*_<>\[\]])", r"\\\1", text)
