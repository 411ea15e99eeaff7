"""Tables as printed on a terminal and in a pipe."""

import pytest

from fashion_infer.present import content
from fashion_infer.present.render import terminal

NUMBERS = [f"{10 ** (k % 8) + k:,}.{k:03d}" for k in range(14)]


@pytest.mark.parametrize("columns", [None, 200, 80, 40])
def test_no_table_loses_a_number_or_a_name(monkeypatch, capsys, columns):
    if columns is not None:  # fakes a terminal of that width
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


def test_what_fits_is_not_wrapped(capsys):
    rows = [["flatten0+fullyconnected0+activation1", "0.000123"]]
    terminal.show([content.table("", ["layer", ">op time, s"], rows)])
    lines = [line.strip() for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert len(lines) == 3 and lines[0].split() == ["layer", "op", "time,", "s"]
    assert lines[2].split() == ["flatten0+fullyconnected0+activation1", "0.000123"]


def test_a_path_is_broken_between_its_names(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "40")
    path = "/home/student/fashion-infer/fashion_infer/lib/libfashion_ops.so"
    terminal.show([content.table("", ["what", "found"], [["the operator library", path]])])
    shown = capsys.readouterr().out
    assert all(name in shown for name in path.split("/"))
