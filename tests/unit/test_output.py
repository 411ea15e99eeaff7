"""Tables as they are printed on a terminal and in a pipe."""

import pytest

from fashion_infer.present import content
from fashion_infer.present.render import terminal

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


def test_lines_that_fit_are_not_wrapped(capsys):
    rows = [["flatten0+fullyconnected0+activation1", "0.000123"]]
    terminal.show([content.table("", ["layer", ">op time, s"], rows)])
    lines = [line.strip() for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert len(lines) == 3 and lines[0].split() == ["layer", "op", "time,", "s"]
    assert lines[2].split() == ["flatten0+fullyconnected0+activation1", "0.000123"]


def test_paths_are_broken_between_their_parts(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "40")
    path = "/home/student/fashion-infer/fashion_infer/lib/libfashion_ops.so"
    terminal.show([content.table("", ["what", "found"], [["the operator library", path]])])
    shown = capsys.readouterr().out
    assert all(name in shown for name in path.split("/"))
