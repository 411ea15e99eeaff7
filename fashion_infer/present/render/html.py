"""Content as HTML."""

import base64
from pathlib import Path
from typing import List

from ..content import Page, Part
from .jinja import environment


def page(content: Page, folder: Path) -> str:
    """A whole page: style, script and the folder's pictures are in it, and it asks for nothing outside itself."""

    def uri(file: str) -> str:
        return "data:image/png;base64," + base64.b64encode((folder / file).read_bytes()).decode()

    return environment(escape=True).get_template("page.html").render(page=content, uri=uri)


def fragment(parts: List[Part]) -> str:
    """Texts and tables for a notebook, which has a style of its own."""
    return environment(escape=True).get_template("fragment.html").render(parts=parts)
