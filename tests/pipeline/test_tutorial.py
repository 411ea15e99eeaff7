"""The commands of the tutorial's notebook run, and print what the page shows."""

import json
import os
import re
import runpy
import sys
from pathlib import Path

import profiles
import pytest

from fashion_infer.explain import slow_cpu
from fashion_infer.explain.samples import SampledProgram
from fashion_infer.graph.layers import ConvolutionShape
from fashion_infer.kernel_files import formats

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "tutorial.md"
NOTEBOOK = ROOT / "docs" / "tutorial.ipynb"
WRITER = runpy.run_path(str(ROOT / "scripts" / "write_notebook.py"))
# Times, errors and figures derived from them depend on the machine; counts do not. On the page, figures that depend on
# the machine have a decimal point. In the output they may have none, because 13.02 rounded to three digits is 13.0.
VARYING = re.compile(r"(\d+\.\d+)(?:e[-+]?\d+)?([mun]?s\b)?(%?)|\b(?:faster|slower|within the noise)\b")
FIGURE = r"\d+(\.\d+)?(e[-+]?\d+)?"
VERDICT = r"(faster|slower|within the noise)"


def shown(page):
    """Yield the lines of output that the page shows for each block of commands; an empty list if it shows none."""
    blocks = [(language, code) for language, _, code in WRITER["BLOCK"].findall(page)]
    for index, (language, _) in enumerate(blocks):
        if language == "sh":
            following = blocks[index + 1] if index + 1 < len(blocks) else ("", "")
            yield [line for line in following[1].splitlines() if line != "..."] if following[0] == "text" else []


def plain(text):
    """Return a text on one line, without colours and without "(auto)", which depends on the machine."""
    return re.sub(r"\s+", " ", re.sub(r"\x1b\[[\d;]*m", "", text).replace("(auto)", "")).strip()


def pattern_of(line):
    """Return a pattern for a line of the page. Figures and verdicts may vary, and "..." is any text without "["."""
    line, pattern, end = plain(line), "", 0
    for found in VARYING.finditer(line):
        figure, seconds, percent = found.groups()
        unit = (r"[mun]?s\b" if seconds else "") + (percent or "")
        pattern += re.escape(line[end : found.start()]) + (FIGURE + unit if figure else VERDICT)
        end = found.end()
    pattern += re.escape(line[end:])
    return re.compile(r"(?<![\w.])" * line[:1].isalnum() + re.sub(r"(\\ )?(\\\.){3}(\\ )?", r"[^\\[]*", pattern))


def test_the_notebook_is_generated_from_the_page():
    page = PAGE.read_text(encoding="utf-8")
    assert json.loads(NOTEBOOK.read_text(encoding="utf-8")) == WRITER["notebook"](page), (
        "run scripts/write_notebook.py after a change of docs/tutorial.md"
    )


@pytest.mark.slow
def test_each_kernel_has_the_finding_that_the_page_explains(tmp_path, monkeypatch):
    """The first finding about each kernel of the page is the one that the next kernel removes. The last has none."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    first = formats.template("c-cpu")
    rows, tiles = [code for _, title, code in WRITER["BLOCK"].findall(PAGE.read_text(encoding="utf-8")) if title]
    cores = rows.replace("  for (size_t b", "#pragma omp parallel for\n  for (size_t b", 1)
    texts = {"serial_sum": first, "one_thread": rows, "sum_in_memory": cores, None: tiles}
    for code in profiles.drawn(list(texts), 1):
        (tmp_path / "conv.cpp").write_text(texts[code])
        file = formats.recognise(tmp_path / "conv.cpp")
        with SampledProgram(file) as program:
            run = program.run(ConvolutionShape(100, 1, 28, 28, 50, 5), 60)
            found = slow_cpu.of_run(file.path, program.vectors, run)
        # On a busy machine threads also wait for a processor.
        assert next((one.code for one in found if one.code != "idle_time"), None) == code


@pytest.mark.slow
def test_commands_print_what_the_page_shows(data_dir, tmp_path, monkeypatch):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    program = tmp_path / "bin" / "fashion-infer"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m fashion_infer "$@"\n')
    program.chmod(0o755)
    for name, value in {
        "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
        "FASHION_INFER_DATA": str(Path(data_dir).resolve()),
        "IPYTHONDIR": str(tmp_path / "ipython"),
        "XDG_DATA_HOME": str(tmp_path / "saved"),
        "COLUMNS": "160",
    }.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "work").mkdir()
    ran = nbformat.read(str(NOTEBOOK), as_version=4)
    commands = [place for place, cell in enumerate(ran.cells) if cell.source.startswith("%%bash")]
    count = profiles.pick(3, len(commands))  # each command needs the commands before it
    del ran.cells[commands[count - 1] + 1 :]
    nbclient.NotebookClient(ran, timeout=300, resources={"metadata": {"path": str(tmp_path / "work")}}).execute()

    expected = list(shown(PAGE.read_text(encoding="utf-8")))
    assert len(commands) == len(expected) > 5
    cells, expected = [ran.cells[place] for place in commands[:count]], expected[:count]
    for cell, lines in zip(cells, expected):
        # The outputs of a cell are pieces of both streams, ordered by time.
        printed = "".join(
            "".join(output.text for output in cell.outputs if output.get("name") == stream) + "\n"
            for stream in ("stdout", "stderr")
        )
        for line in lines:
            assert pattern_of(line).search(plain(printed)), f"{cell.source}\nprinted\n{printed}"
        for correctness in re.findall(r"^Correctness: [\d.]+", "\n".join(lines), re.MULTILINE):
            assert correctness in printed
