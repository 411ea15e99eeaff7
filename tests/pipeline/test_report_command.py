"""A report on kernel files."""

import json

import profiles
import pytest
import small_report
from planted_bugs import TEMPLATES, path_of

from fashion_infer.errors import DeviceError
from fashion_infer.report import gather

pytestmark = pytest.mark.slow
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


def test_a_report_on_a_kernel_file(tmp_path, monkeypatch):
    """Without the benchmarks, which judge the file again; tests of `bench conv` run files."""

    def left_out(*_, **__):
        raise DeviceError("left out")

    for benchmark in (gather.Convolutions, gather.Networks):
        monkeypatch.setattr(benchmark, "measure", left_out)
    out, measured, _ = small_report.made(tmp_path / "report", kernel=str(TEMPLATES / "conv.cpp"), kernel_format="c-cpu")
    assert measured.wrong == [] and measured.kernel.right and measured.changed == 0
    listed = json.loads((out / "report.json").read_text())["files"]
    assert sorted([*listed, "report.json"]) == sorted(path.name for path in out.iterdir())
    written = (out / "report.md").read_text()
    assert "## Your kernel: conv.cpp" in written and f"--kernel {TEMPLATES / 'conv.cpp'} --format c-cpu" in written
    assert "left out" in written and "No profiler" not in written
    assert json.loads((out / "run-operator.json").read_text())["submission"]["correct"] is True
