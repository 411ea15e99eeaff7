"""Kernel files in `bench conv`. The device is a NumPy stand-in, as in test_bench.py."""

import json
from types import SimpleNamespace

import kernel_loading
import numpy as np
import pytest
import reference
from planted_bugs import TEMPLATES, path_of
from test_bench import Tensors

import fashion_infer
from fashion_infer.bench import timing, user_kernels
from fashion_infer.bench.machines import cuda
from fashion_infer.errors import CheckFailed, DeviceError
from fashion_infer.graph.layers import ConvolutionShape
from fashion_infer.kernel_files import loading
from fashion_infer.library import bindings, kernels

pytestmark = pytest.mark.usefixtures("kernel_cache")


@pytest.fixture
def work(monkeypatch):
    """Ten images on the fake device, which calls the CPU's kernels. The list `work.calls` records the calls."""
    calls = []
    forward, convolve, chosen = bindings.load().fops_conv_forward_cpu, kernels.convolve, kernels.chosen_kernel

    def launch_timed(kernel, conv, x, weight, y, stream, node=0):
        calls.append(("device", stream))
        bindings.check(forward(kernel.encode(), conv, x, weight, y, node))

    def staged(x, weight, kernel, backend, device, node, out):
        calls.append(("host", device))
        return convolve(x, weight, kernel, node=node, out=out)

    monkeypatch.setattr(kernels, "launch_timed", launch_timed)
    monkeypatch.setattr(kernels, "convolve", staged)
    monkeypatch.setattr(kernels, "chosen_kernel", lambda x, k, backend, kernel: chosen(x, k, "cpu", kernel))
    rng = np.random.default_rng(5)
    x = rng.integers(0, 256, (10, 2, 9, 9)).astype(np.float32)
    weight = reference.weights(rng, 3, 2, 4)
    made = cuda.CudaConvolution(Tensors(), x, weight, (10, 3, 6, 6), device=1)
    made.calls, made.x_on_host, made.weight_on_host = calls, x, weight
    return made


def check_file(work, path, **changes):
    kernel = kernel_loading.load(path)._replace(backend="gpu", **changes)
    row, x, weight = user_kernels.row_of(kernel), work.x_on_host, work.weight_on_host
    shape = ConvolutionShape(1, *x.shape[1:], len(weight), weight.shape[2])
    alone = user_kernels.judged(kernel, [shape])[shape]
    return row, user_kernels.contender_if_correct("gpu", work, row, kernel, alone, x, weight)


@pytest.fixture
def correct_alone(monkeypatch):
    """A judge for which each layer is correct in the trials."""

    def check_layers(kernel, layers, images=0):
        found = {"right": True, "precision": "float32", "findings": (), "line": lambda: ""}
        return SimpleNamespace(shapes=[SimpleNamespace(shape=layer.shape, **found) for layer in layers])

    monkeypatch.setattr(user_kernels.judge, "check_layers", check_layers)


@pytest.mark.parametrize("host_memory, call", [(False, ("device", 7)), (True, ("host", 1))])
def test_a_file_runs_on_device_or_host_memory(work, host_memory, call):
    path = TEMPLATES / "conv.cpp"
    row, contender = check_file(work, path, host_memory=host_memory)
    assert (row.status, row.precision, row.findings, row.step) == ("ok", "float32", (), None) and row.error < 1e-6
    assert row.file == str(path) and row.summary == f"{path} (c-cpu)"
    assert contender is not None and set(work.calls) == {call}
    (times,) = timing.summaries(timing.interleaved(work.clock, [contender], 4)).values()
    assert times["runs"] == 4 and times["median_ms"] > 0
    assert contender.clock.layer_ms is None
    contender.clock.layer_seconds += [2e-3, 1e-3, 4e-3]
    assert contender.clock.layer_ms == 2.0


def test_a_wrong_image_of_the_benchmarks_own_call_is_found(work, tmp_path, correct_alone):
    file = tmp_path / "five.cpp"
    template = (TEMPLATES / "conv.cpp").read_text()
    file.write_text(template.replace("b < (size_t)B", "b < (size_t)(B < 5 ? B : 5)"))
    row, contender = check_file(work, file)
    assert contender is None and (row.status, row.precision) == ("wrong", "incorrect")
    assert "y[5,0,0,0]" in row.reason


def test_a_wrong_file_is_not_timed(work):
    row, contender = check_file(work, path_of("throws"))
    assert contender is None and row.status == "wrong" and "the tile does not fit" in row.reason and not work.calls


def test_a_call_that_fails(work, monkeypatch, correct_alone):
    """The call in this process may fail although the trials, each in a separate process, have succeeded."""
    path = path_of("throws")
    monkeypatch.setattr(loading, "device_usable", lambda backend: True)
    row, contender = check_file(work, path)
    assert contender is None and row.status == "wrong" and "the tile does not fit" in row.reason
    monkeypatch.setattr(loading, "device_usable", lambda backend: False)
    with pytest.raises(CheckFailed):
        check_file(work, path)


def test_device_usable(monkeypatch):
    def fails():
        raise DeviceError("an illegal memory access was encountered")

    monkeypatch.setattr(loading.devices, "cuda_devices", fails)
    assert loading.device_usable("cpu") and not loading.device_usable("gpu")


def test_from_python(tmp_path):
    path = TEMPLATES / "conv.cpp"
    first, second = (fashion_infer.bench_conv(path, against="none", batch=5, repeat=4) for _ in range(2))
    (case,) = first.cases
    assert first.wrong == [] and str(path) in [row.file for row in case.rows]
    written = tmp_path / "second.json"
    written.write_text(json.dumps(second.as_dict()))
    by_result, by_file = (fashion_infer.compare(first, other) for other in (second, written))
    assert [line.b for line in by_result.lines] == [line.b for line in by_file.lines]
    assert path.name in first._repr_html_() and path.name in by_result._repr_html_()
    with pytest.raises(fashion_infer.UsageError):
        fashion_infer.compare(first, fashion_infer.infer("ece408-high", 5, "cpu", data="synthetic"))
