"""Grades attacks, and checks each verdict against the first line of the attack's file."""

import re
from pathlib import Path

from planted_bugs import HEAD, parts, written

from fashion_infer.grading import grade

ATTACKS = Path(__file__).resolve().parent
# Layers of a custom network, for a rubric without `edition`.
LAYERS = """
[[layer]]
channels = 3
input_size = 32
filters = 64
kernel_size = 3

[[layer]]
channels = 2
input_size = 9
filters = 4
kernel_size = 9
images = 2
"""


def on_cpu():
    """Return {file name: path} of the attacks in `cpu`, after writing them to build/attacks."""
    texts = {path.name: path.read_text() for path in (ATTACKS / "cpu").iterdir() if path.name != "attacks.cpp"}
    for name, ends, text in parts(ATTACKS / "cpu" / "attacks.cpp"):
        texts[f"{name}.cpp"] = f'// Ends as: {ends}\n#include "conv.h"\n{text.replace("CONV_FORWARD", HEAD)}'
    folder = written("attacks", texts)
    return {name: folder / name for name in sorted(texts) if not name.endswith(".h")}


def judged(asked, *sources, **options):
    return list(grade.grade(grade.GradeRequest(tuple(map(str, sources)), asked, **options)))


def check(path, verdict, ranked=True):
    """Assert that a verdict matches the first line of the attack's file; `ranked` is whether right files are."""
    kind, _, text = path.read_text().splitlines()[0].partition("Ends as: ")[2].split(". ")[0].partition(": ")
    # When tests share cores, a worker may wake up so late that the clocks disagree. That finding costs no points.
    told = [(one.code, one.text) for one in verdict.findings if one.code != "clocks" or "clocks" in kind]
    assert "GOT THROUGH" not in verdict.printed, verdict.printed
    if kind == "harmless":
        assert (verdict.status, told, verdict.marks.points, verdict.ranked) == ("judged", [], 100, ranked)
    elif kind == "refused":
        assert verdict.status == "refused" and re.search(text, verdict.reason), verdict.reason
        assert verdict.marks.points == 0 and not verdict.ranked
    elif kind == "timed":  # correct, and slower than `text` ms by the referee's clock
        # test_grading_on_device.py compares the time with that of an honest copy.
        assert (verdict.status, told, verdict.ranked) == ("judged", [], ranked)
        assert verdict.marks.op_ms > float(text or 0)
    else:
        assert any(re.fullmatch(kind, found) and re.search(text, said) for found, said in told), told
        if told[0][0] == "work_before":
            assert any("(Layer Time)" in mark.message for mark in verdict.marks.marks), verdict.marks
        elif kind != "clocks":
            fewer = 50 if verdict.findings[0].where.endswith("n = 20") else 0  # the earlier checks passed
            assert verdict.marks.points <= 10 + fewer and verdict.marks.op_ms is None and not verdict.ranked
