"""A result is formatted once: a column of a table appears on the terminal, in Markdown and in HTML."""

import re
import unicodedata
from html import unescape

import profiles
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fashion_infer.bench.records import BenchCase, ConvolutionShape, Measurement
from fashion_infer.present import content
from fashion_infer.present.bench import pages
from fashion_infer.present.content import table
from fashion_infer.present.render import documents, terminal
from fashion_infer.system.text import shown

PEERS = {"cudnn fp32": 3.37, "cudnn tf32": 3.36}


def kernel(name, **values):
    times = {"runs": 20, "min_ms": 0.337, "median_ms": 0.338, "gb_s": 3499.1, "tflop_s": 42.6, "percent_of_limit": 73.3}
    known = {"step": 12, "summary": "tensor cores on split operands", "precision": "float32", "error": 1.5e-7}
    return Measurement(name, "ours", **{**times, **known, "faster_than": PEERS, **values})


SKIPPED = {"status": "skipped", "min_ms": None, "median_ms": None, "faster_than": {}}
WRONG = {**SKIPPED, "status": "wrong", "reason": "error 1.0e-03, more than 5e-06"}
CONVOLUTION = BenchCase(
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
NETWORK = BenchCase(
    "fa2017",
    "device",
    1,
    1,
    [
        kernel("fashion-infer", images_s=34228.0, p99_ms=0.07161, changed=0, tflop_s=None, percent_of_limit=None),
        *(Measurement(peer, "peer", median_ms=1.138, min_ms=1.137, images_s=879.0) for peer in PEERS),
    ],
)


def cells_of(page):
    """Return the texts of a page's table cells and headers."""
    cells = re.findall(r"<t[dh]\b[^>]*>(.*?)</t[dh]>", page, re.DOTALL)
    return [unescape(re.sub(r"<[^>]+>", "", cell)).strip() for cell in cells]


@pytest.fixture
def rendered(capsys, tmp_path, monkeypatch):
    """A function that returns parts of a page as text on a wide terminal, as Markdown and as HTML."""

    def call(parts):
        page = content.Page("P", [], [content.Section("s", "S", parts)])
        monkeypatch.setattr(terminal, "_PIPE", 300)
        terminal.show(parts)
        return capsys.readouterr().out, documents.markdown_page(page), documents.html_page(page, tmp_path)

    return call


@pytest.mark.parametrize("case", [CONVOLUTION, NETWORK], ids=["conv", "network"])
def test_columns_are_in_all_renderings(rendered, case):
    parts = pages.done(case)
    shown, written, page = rendered(parts)
    (table,) = [part for part in parts if part.kind == "table"]
    header = next(line for line in written.splitlines() if line.startswith("|"))
    assert header == "| " + " | ".join(column.name for column in table.columns) + " |"
    cells = cells_of(page)
    for column, name in enumerate(column.name for column in table.columns):
        detail = table.columns[column].detail
        assert name in cells
        for index, row in enumerate(table.rows):
            text = row[column].text
            if text:
                assert f" {text} |" in written and text in cells
                assert detail or index in table.detail_rows or text in shown
        assert detail or name in shown


def test_the_terminal_leaves_details_out(rendered):
    shown, written, page = rendered(pages.done(CONVOLUTION))
    for text in ("register-accumulate", "step"):
        assert text not in shown and text in written and text in page
    assert "tensor-core (auto)" in shown and "constant-weights" in shown and WRONG["reason"] in shown


def test_rows_are_sorted_by_time_and_users_files_are_marked():
    rows = [Measurement("fill", "limit", median_ms=9.0), kernel("slow", median_ms=5.0), kernel("bad", **WRONG)]
    rows += [kernel("mine.cu", file="./mine.cu", median_ms=2.0), Measurement("cudnn", "peer", median_ms=3.0)]
    table, *_ = pages.done(CONVOLUTION.__class__("fa2017", "device", 1, 1, rows, 1, CONVOLUTION.shape, "slow"))
    names = [row[0].text.split()[0] for row in table.rows]
    assert names == ["write", "mine.cu", "cudnn", "slow", "bad"]
    assert [row[0].text for row in table.rows if "(yours)" in row[0].text] == ["mine.cu (yours)"]


@pytest.mark.parametrize("case", [CONVOLUTION, NETWORK], ids=["conv", "network"])
def test_tables_fit_on_100_columns(capsys, monkeypatch, case):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    (table, *_) = pages.done(case)
    terminal.show([table._replace(caption="")])
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in capsys.readouterr().out.splitlines()]
    assert max(map(len, lines)) <= 100
    header = next(line for line in lines if line.strip())  # no column name is broken over two lines
    assert all(column.name in header for column in table.columns if not column.detail)
    last = [index for index, column in enumerate(table.columns) if not column.detail][-3:]
    for row in table.rows[:2]:
        assert any(all(row[index].text in line for index in last) for line in lines)


NUMBERS = [f"{10 ** (k % 8) + k:,}.{k:03d}" for k in range(14)]


@pytest.mark.parametrize("columns", [None, 200, 80, 40])
def test_tables_show_all_numbers_and_names(monkeypatch, capsys, columns):
    if columns is not None:  # fake a terminal of that width
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("COLUMNS", str(columns))
    names = ["kernel", *(f">x torch-compile {k}" for k in range(len(NUMBERS))), "idea"]
    rows = [
        ["global-accumulate", *NUMBERS, "one thread an output, summing in global memory"],
        ["a fused stage of a [name]+without+any:blank:in+it", *NUMBERS, ""],
    ]
    terminal.show([content.table("", names, rows)])
    shown = capsys.readouterr().out
    for word in ("global-accumulate", *NUMBERS):
        assert word in shown
    assert shown.count("torch-compile") == len(NUMBERS) and "[name]" in shown


@settings(max_examples=profiles.examples(100))
@given(st.text(alphabet=st.characters()))
@example("\x1b]0;title\x07")
@example("a\u202eb\u2028c\udce9")
def test_no_control_characters_remain(text):
    said = shown(text)
    assert not [c for c in said if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")]
    said.encode("utf-8")
    kept = "".join(c for c in text if unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Zl", "Zp"))
    assert re.sub(r"\\(x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}|[nrt])", "", said) == re.sub(
        r"\\(x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}|[nrt])", "", kept
    )


def test_tables_escape_their_cells():
    row = table("", ["picture", ">size"], [["a\x1bb", (1.0, "1")]]).rows[0]
    assert row[0].text == r"a\x1bb" and row[1].value == 1.0
