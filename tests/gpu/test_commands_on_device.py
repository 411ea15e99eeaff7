"""Commands on a CUDA device: `bench`, the profiler, the report, and `kernel explain`."""

import json

import planted_kernels as planted
import pytest
from profiles import drawn

from fashion_infer.bench.conv import Convolutions
from fashion_infer.bench.network import Networks
from fashion_infer.bench.request import BenchRequest
from fashion_infer.errors import DeviceError
from fashion_infer.explain import ncu, slow_gpu, wrong
from fashion_infer.graph.layers import ConvolutionShape
from fashion_infer.kernel_files import formats
from fashion_infer.library import kernels
from fashion_infer.system.programs import find_tool

pytestmark = pytest.mark.alone


@pytest.fixture
def library_with_cuda():
    try:
        if not kernels.table("gpu"):
            pytest.skip("the library has no CUDA part")
    except DeviceError as error:
        pytest.skip(str(error))


def test_bench_of_kernels(library_with_cuda, torch):
    result = Convolutions(BenchRequest(("fa2017", "sp2018"), "gpu", batches=(200,), repeat=4)).measure()
    assert result.wrong == [] and len(result.cases) == 3
    assert "cudnn" not in result.not_compared
    for case in result.cases:
        for row in case.rows:
            assert row.status == "skipped" or row.median_ms > 0


def test_bench_of_networks(library_with_cuda, torch):
    result = Networks(BenchRequest(("fa2017", "fa2019"), "gpu", 0, "torch", (1, 300), 4)).measure()
    assert result.wrong == [] and len(result.cases) == 10
    assert "torch" not in result.not_compared
    for case in result.cases:
        assert case.rows[0].name == "fashion-infer"
        assert case.peers == (["torch fp32", "torch tf32"])
        assert all(row.median_ms > 0 for row in case.rows)


def test_tables_and_timeline_show_the_kernels_that_ran(library_with_cuda, invoke, tmp_path):
    pytest.importorskip("cupti")
    timeline = tmp_path / "t.json"
    options = ("--data", "synthetic", "--n", "300", "--batch-size", "100", "--turns", "1", "--no-ceilings")
    kernel = ("--backend", "gpu", "--kernel", "global-accumulate")
    status, out, err = invoke("profile", *options, *kernel, "--json", "--trace", timeline)
    assert status == 0, err
    found = json.loads(out)
    activities, calls = ({row["name"]: row for row in table["rows"]} for table in found["tables"])
    ours = next(row for name, row in activities.items() if "global_accumulate" in name)
    assert ours["calls"] == 6  # three batches, each after a launch on a single image
    assert activities["[CUDA memcpy DtoH]"]["calls"] == 3 and "[CUDA memcpy HtoD]" in activities
    assert calls["cudaLaunchKernel"]["calls"] == 6 and "cuLaunchKernel" not in calls
    slices = [event for event in json.loads(timeline.read_text())["traceEvents"] if event["ph"] == "X"]
    assert {event["cat"] for event in slices} >= {"kernel", "copy", "api", "node"}


def test_the_report_has_results_of_the_device(library_with_cuda, run_program, tmp_path, torch):
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


# ---- `kernel explain` on planted faults. The tests need compute-sanitizer and ncu.


def needs(tool):
    try:
        find_tool(tool)
    except DeviceError as error:
        pytest.skip(str(error))


def test_the_faulty_line_is_named(tmp_path):
    needs("compute-sanitizer")
    sample, named = drawn(list(planted.WRONG.items()), 3), 0
    for name, (_, text) in sample:
        path = tmp_path / f"{name}.cu"
        path.write_text(text)
        found, _ = wrong.findings(planted.verdict(formats.recognise(path), name), 60)
        named += bool(found) and found[0].line in planted.marked(text)
    assert named >= len(sample) - 1  # no tool shows the line for uninitialised shared memory


def test_the_cause_of_slowness_is_named(tmp_path):
    needs("ncu")
    sample, named = drawn(list(planted.SLOW.items()), 3), 0
    for name, ((images, channels, side, filters, taps), text) in sample:
        path = tmp_path / f"{name}.cu"
        path.write_text(text)
        file, shape = formats.recognise(path), ConvolutionShape(images, channels, side, side, filters, taps)
        found, _ = slow_gpu.findings(ncu.measure(file, shape, 60), path, file.format)
        named += bool(found) and found[0].code in planted.SAME.get(name, {name})
    assert named >= len(sample) - 1
