"""A result is typeset once: a column of a table shows on the terminal, in Markdown and in HTML."""

import re
from html.parser import HTMLParser

import pytest

from fashion_infer.bench.records import Case, ConvolutionShape, Measurement, Result
from fashion_infer.kernel_files import plugin
from fashion_infer.present import content
from fashion_infer.present import kernel as kernel_files
from fashion_infer.present.bench import common, conv, network
from fashion_infer.present.render import html, markdown, terminal

PEERS = {"cudnn fp32": 3.37, "cudnn tf32": 3.36}


def kernel(name, **values):
    times = {"runs": 20, "min_ms": 0.337, "median_ms": 0.338, "gb_s": 3499.1, "tflop_s": 42.6, "percent_of_limit": 73.3}
    known = {"step": 12, "summary": "tensor cores on split operands", "precision": "float32", "error": 1.5e-7}
    return Measurement(name, "ours", **{**times, **known, "faster_than": PEERS, **values})


SKIPPED = {"status": "skipped", "min_ms": None, "median_ms": None, "faster_than": {}}
WRONG = {**SKIPPED, "status": "wrong", "reason": "error 1.0e-03, more than 5e-06"}
CONVOLUTION = Case(
    "fa2017",
    "device",
    10000,
    48,
    [
        Measurement("fill", "limit", summary="writing the output", median_ms=0.248, min_ms=0.247, gb_s=4644.0),
        kernel("tensor-core"),
        kernel("register-accumulate", **SKIPPED),
        kernel("constant-weights", **WRONG),
        *(Measurement(peer, "peer", layout="NHWC", median_ms=1.138, min_ms=1.137, error=3e-7) for peer in PEERS),
    ],
    number=1,
    shape=ConvolutionShape(10000, 1, 28, 28, 50, 5),
    auto="tensor-core",
)
NETWORK = Case(
    "fa2017",
    "device",
    1,
    1,
    [
        kernel("fashion-infer", images_s=34228.0, p99_ms=0.07161, changed=0),
        *(Measurement(peer, "peer", median_ms=1.138, min_ms=1.137, images_s=879.0) for peer in PEERS),
    ],
)


class Cells(HTMLParser):
    """The texts of a page's table cells and headers."""

    def __init__(self, text):
        super().__init__()
        self.texts, self._in = [], False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        if tag in ("td", "th"):
            self._in = True

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self._in = False

    def handle_data(self, data):
        if self._in and data.strip():
            self.texts.append(data)


@pytest.fixture
def rendered(capsys, tmp_path, monkeypatch):
    """The same parts on a terminal so wide that nothing wraps, as Markdown and as HTML."""

    def call(parts):
        page = content.Page("P", [], [content.Section("s", "S", parts)])
        monkeypatch.setattr(terminal, "_PIPE", 300)
        terminal.show(parts)
        return capsys.readouterr().out, markdown.page(page), html.page(page, tmp_path)

    return call


def parts_of(case):
    return conv.case(case, "gpu") if case.number else network.case(case)


@pytest.mark.parametrize("case", [CONVOLUTION, NETWORK], ids=["conv", "network"])
def test_every_column_is_in_every_rendering(rendered, case):
    parts = parts_of(case)
    shown, written, page = rendered(parts)
    (table,) = [part for part in parts if part.kind == "table"]
    header = next(line for line in written.splitlines() if line.startswith("|"))
    assert header == "| " + " | ".join(column.name for column in table.columns) + " |"
    cells = Cells(page).texts
    for column, name in enumerate(column.name for column in table.columns):
        detail = table.columns[column].detail
        assert name in cells
        for index, row in enumerate(table.rows):
            text = row[column].text
            if text:
                assert f" {text} |" in written and text in cells
                assert detail or index in table.detail_rows or text in shown
        assert detail or name in shown


@pytest.mark.parametrize("subject, case", [(conv, CONVOLUTION), (network, NETWORK)], ids=["conv", "network"])
def test_to_add_a_column_is_one_edit(rendered, monkeypatch, subject, case):
    real = subject.fields
    more = common.Field(">runs timed", lambda row, case: content.number(row.runs + 4321.0, ".1f"))
    monkeypatch.setattr(subject, "fields", lambda *arguments: [*real(*arguments), more])
    for text in rendered(parts_of(case)):
        assert "runs timed" in text and "4341.0" in text


def test_the_terminal_leaves_details_out(rendered):
    shown, written, page = rendered(conv.case(CONVOLUTION, "gpu"))
    for text in ("tensor cores on split operands", "register-accumulate", "step"):
        assert text not in shown and text in written and text in page
    assert "tensor-core (auto)" in shown and "limit: fill" in shown
    assert "constant-weights" in shown and "WRONG: constant-weights: error 1.0e-03, more than 5e-06" in shown


@pytest.mark.parametrize("case", [CONVOLUTION, NETWORK], ids=["conv", "network"])
def test_a_terminal_of_100_columns_is_wide_enough(capsys, monkeypatch, case):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    (table, *_) = parts_of(case)
    terminal.show([table._replace(caption="")])
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in capsys.readouterr().out.splitlines()]
    assert max(map(len, lines)) <= 100
    last = [index for index, column in enumerate(table.columns) if not column.detail][-3:]
    for row in table.rows[:2]:
        assert any(all(row[index].text in line for index in last) for line in lines)


def test_a_page_says_all_that_it_needs():
    versions, device = {"library": "x"}, {"name": "a GPU", "instructions": "avx2", "threads": 2}
    result = Result(
        "conv", "cpu", device, versions, "fashion-infer bench conv", [10000], 20, {"torch": "not installed"}
    )
    result.cases.append(CONVOLUTION)
    text = markdown.page(conv.page(result, "k.md", "k.png", "k.json"))
    assert "    fashion-infer bench conv --json k.json --plot k.png --markdown k.md\n" in text
    assert "a GPU, avx2, 2 threads. library: x." in text and "](k.png)" in text
    assert "> Not compared with torch (not installed)." in text and "\n## fa2017\n" in text


def test_work_outside_op_time_is_in_the_table():
    findings = [text for text in plugin.FOUND.values() if "Op Time" in text]
    assert len(findings) == 2
    for finding in findings:
        assert (
            kernel_files.marked("mine.cu", ("data or weights were changed", finding))
            == "mine.cu (work outside Op Time)"
        )
    assert kernel_files.marked("mine.cu", ("data or weights were changed",)) == "mine.cu"
