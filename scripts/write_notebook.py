"""Writes docs/tutorial.ipynb from docs/tutorial.md: run it without arguments after changing the page.

A block of `sh` becomes a cell that bash runs. A block of `cpp` with a title becomes a cell that writes that file. The
page's output blocks are left out, because running the notebook shows the reader's own output.
"""

import json
import re
from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent / "docs"
BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```\n', re.DOTALL | re.MULTILINE)
FAILS = "# exit code 1"  # marks a command of the page whose exit code must be 1


def main():
    text = json.dumps(notebook((DOCS / "tutorial.md").read_text(encoding="utf-8")), indent=1, ensure_ascii=False)
    (DOCS / "tutorial.ipynb").write_text(text + "\n", encoding="utf-8")


def notebook(page):
    """Return the notebook as its JSON object."""
    cells = [cell(index, *part) for index, part in enumerate(parts(page))]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def parts(page):
    """Return (kind, text) of each cell."""
    end = 0
    for block in BLOCK.finditer(page):
        yield from prose(page[end : block.start()])
        language, title, code = block.groups()
        if language == "sh":
            yield "code", ("%%bash --no-raise-error\n" if FAILS in code else "%%bash\nset -e\n") + code.rstrip("\n")
        elif title:
            yield "code", f"%%writefile {title}\n" + code.rstrip("\n")
        end = block.end()
    yield from prose(page[end:])


def prose(text):
    """Return a Markdown cell, or no cell when the text is empty."""
    if text.strip():
        yield "markdown", text.strip()


def cell(index, kind, text):
    """Return one cell. Its id is its position, so that the file is always the same."""
    lines = text.splitlines(keepends=True)
    made = {"cell_type": kind, "id": f"cell-{index}", "metadata": {}, "source": lines}
    return {**made, "execution_count": None, "outputs": []} if kind == "code" else made


if __name__ == "__main__":
    main()
