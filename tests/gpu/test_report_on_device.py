"""The report on a GPU has results of the device."""

import json

import pytest

from fashion_infer.errors import DeviceError
from fashion_infer.library import kernels


def test_report(run_program, tmp_path, torch):
    try:
        if not kernels.table("gpu"):
            pytest.skip("the library has no CUDA part")
    except DeviceError as error:
        pytest.skip(str(error))
    out = tmp_path / "report"
    done = run_program("report", "--out", out, "--quick", "--data", "synthetic", "--backend", "gpu", timeout=600)
    assert done.returncode == 0, done.stderr
    for name in ("bench-conv", "bench-net"):
        assert json.loads((out / f"{name}.json").read_text())["backend"] == "gpu"
    assert json.loads((out / "run-fused.json").read_text())["backend"] == "gpu"
    written = (out / "report.md").read_text()
    assert "from images in pinned host memory to predictions on the host" in written
    assert "matrix product, fp16, TFLOP/s" in written and "> GPU: not measured" not in written
    assert "GPU activities, fused mode" in written or "No profiler: " in written
