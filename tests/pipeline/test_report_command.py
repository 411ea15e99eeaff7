"""The `report` command on kernel files, run as a user does."""

import json
from pathlib import Path

import profiles
import pytest
from planted_bugs import path_of

pytestmark = pytest.mark.slow
FILE = Path(__file__).resolve().parents[2] / "fashion_infer" / "kernel_files" / "templates" / "conv.cpp"
HARMFUL = path_of("past-height")


@pytest.mark.skipif(profiles.pick(True, False), reason="takes 30 s: part of make test-all")
def test_a_report_on_a_kernel_that_writes_out_of_bounds(run_program, tmp_path):
    out = tmp_path / "report"
    words = ("report", "--out", out, "--quick", "--n", 200, "--data", "synthetic", "--kernel", HARMFUL)
    done = run_program(*words, timeout=600)
    assert done.returncode == 1 and "past-height.cpp" in done.stderr
    written = (out / "report.md").read_text()
    head = written.partition("\n\n## ")[0]
    assert "Your kernel: **WRONG**" in head and "Our kernels and networks: **correct**" in head
    assert "kernel explain" in written and "past-height.cpp:" in written
    assert json.loads((out / "run-operator.json").read_text()).get("submission") is None


def test_a_report_on_a_kernel_file(run_program, tmp_path):
    out = tmp_path / "report"
    words = ("--quick", "--n", 200, "--data", "synthetic", "--kernel", FILE, "--format", "c-cpu")
    done = run_program("report", "--out", out, *words, timeout=600)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{out / 'index.html'}\n"
    assert all(line.startswith("report: ") for line in done.stderr.splitlines())
    listed = json.loads((out / "report.json").read_text())["files"]
    assert sorted([*listed, "report.json"]) == sorted(path.name for path in out.iterdir())
    assert [path.name for path in tmp_path.iterdir()] == ["report"]
    written = (out / "report.md").read_text()
    assert "checks of the models passed" in written and "WRONG" not in written and "No profiler" not in written
    assert f"--kernel {FILE} --format c-cpu" in written
    assert "## Your kernel: conv.cpp" in written and "kernel explain" in written and "write floor: fill" in written
    assert json.loads((out / "run-operator.json").read_text())["submission"]["correct"] is True
    names = [row["name"] for row in json.loads((out / "bench-conv.json").read_text())["cases"][0]["rows"]]
    assert "conv.cpp" in names and "shifted" in names
