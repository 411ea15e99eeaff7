"""The `report` command, run as a user does, also twice into the same folder."""

import json
from pathlib import Path

import profiles
import pytest

from fashion_infer.report import gather

pytestmark = pytest.mark.slow
FILE = Path(__file__).resolve().parents[2] / "fashion_infer" / "kernel_files" / "templates" / "conv.cpp"


HARMFUL = Path(__file__).resolve().parents[1] / "submissions" / "wrong" / "past-height.cpp"


@pytest.mark.skipif(profiles.pick(True, False), reason="takes 30 s: part of make test-all")
def test_a_report_on_a_kernel_that_writes_out_of_bounds(run_program, tmp_path):
    out = tmp_path / "report"
    words = ("report", "--out", out, "--quick", "--n", 200, "--data", "synthetic", "--kernel", HARMFUL)
    done = run_program(*words, timeout=600)
    assert done.returncode == 1 and "past-height.cpp" in done.stderr
    written = (out / "report.md").read_text()
    assert written.partition("\n\n## ")[0].count(": **WRONG**") == 4
    assert "kernel explain" in written and "past-height.cpp:" in written
    assert json.loads((out / "run-operator.json").read_text()).get("submission") is None


# Each run draws one of the two, because they take long.
@pytest.mark.parametrize("kernel", profiles.drawn([None, FILE], 1), ids=lambda file: "file" if file else "built-in")
def test_report(kernel, run_program, invoke, small_report, monkeypatch, tmp_path):
    out = tmp_path / "report"
    words = ("report", "--out", out, "--quick", "--n", 200, "--data", "synthetic", "--backend", "cpu")
    words += ("--kernel", kernel, "--format", "c-cpu") if kernel else ()
    done = run_program(*words, timeout=600)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{out / 'index.html'}\n"
    assert all(line.startswith("report: ") for line in done.stderr.splitlines())
    listed = json.loads((out / "report.json").read_text())["files"]
    assert sorted([*listed, "report.json"]) == sorted(path.name for path in out.iterdir())
    written = (out / "report.md").read_text()
    assert "checks passed" in written and "WRONG" not in written and "No profiler" not in written
    assert [path.name for path in tmp_path.iterdir()] == ["report"]
    if kernel:
        assert f"--kernel {FILE} --format c-cpu" in written
        assert "## Your kernel: conv.cpp" in written and "kernel explain" in written and "write floor: fill" in written
        assert json.loads((out / "run-operator.json").read_text())["submission"]["correct"] is True
        names = [row["name"] for row in json.loads((out / "bench-conv.json").read_text())["cases"][0]["rows"]]
        assert "conv.cpp" in names and "shifted" in names

    first = (out / "index.html").read_bytes()
    if profiles.pick(True, False):  # to save time, the second report shows measurements made before
        monkeypatch.setattr(gather, "measure", lambda *_: small_report.measured)
        assert invoke(*words)[0] == 0
    else:
        assert run_program(*words, timeout=600).returncode == 0
    assert (out / "index.html").read_bytes() != first
    assert [path.name for path in tmp_path.iterdir()] == ["report"]
    (out / "mine.txt").touch()
    done = run_program(*words)
    assert done.returncode == 2 and "mine.txt" in done.stderr and done.stderr.count("\n") == 1
