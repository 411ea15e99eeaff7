"""The tutorial's notebook runs, command by command, and prints what the page shows."""

import json
import os
import re
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "tutorial.md"
NOTEBOOK = ROOT / "docs" / "tutorial.ipynb"
WRITER = runpy.run_path(str(ROOT / "scripts" / "write_notebook.py"))
# Times, errors, and what follows from them are this machine's; counts are not.
VARYING = re.compile(r"\d+\.\d+(e-\d+)?([mun]?s\b)?%?|\b(faster|slower|within the noise)\b")


def shown(page):
    """For each block of commands of the page the lines of output that it shows; none where it shows none."""
    blocks = [(language, code) for language, _, code in WRITER["BLOCK"].findall(page)]
    for index, (language, _) in enumerate(blocks):
        if language == "sh":
            following = blocks[index + 1] if index + 1 < len(blocks) else ("", "")
            yield [line for line in following[1].splitlines() if line != "..."] if following[0] == "text" else []


def steady(text):
    """A text without what differs from run to run."""
    text = text.replace("(auto)", "")  # which of our kernels is the fastest is the machine's, too
    return re.sub(r"\s+", " ", VARYING.sub("#", re.sub(r"\x1b\[[\d;]*m", "", text))).strip()


def test_notebook_is_the_page():
    page = PAGE.read_text(encoding="utf-8")
    assert json.loads(NOTEBOOK.read_text(encoding="utf-8")) == WRITER["notebook"](page), (
        "run scripts/write_notebook.py after a change of docs/tutorial.md"
    )


def test_every_command_of_the_page_does_what_it_shows(data_dir, tmp_path, monkeypatch):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    program = tmp_path / "bin" / "fashion-infer"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m fashion_infer "$@"\n')
    program.chmod(0o755)
    for name, value in {
        "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
        "FASHION_INFER_DATA": str(data_dir),
        "IPYTHONDIR": str(tmp_path / "ipython"),
        "COLUMNS": "160",
    }.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "work").mkdir()
    ran = nbformat.read(str(NOTEBOOK), as_version=4)
    nbclient.NotebookClient(ran, timeout=300, resources={"metadata": {"path": str(tmp_path / "work")}}).execute()

    expected = list(shown(PAGE.read_text(encoding="utf-8")))
    cells = [cell for cell in ran.cells if cell.cell_type == "code" and cell.source.startswith("%%bash")]
    assert len(cells) == len(expected) > 5
    for cell, lines in zip(cells, expected):
        # Each stream comes in pieces, whose order is that of the time.
        printed = "".join(
            "".join(output.text for output in cell.outputs if output.get("name") == stream) + "\n"
            for stream in ("stdout", "stderr")
        )
        for line in lines:
            assert steady(line) in steady(printed), f"{cell.source}\nprinted\n{printed}"
        for correctness in re.findall(r"^Correctness: [\d.]+", "\n".join(lines), re.MULTILINE):
            assert correctness in printed
