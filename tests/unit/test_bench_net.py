"""`fashion-infer bench net`: its checks, counts and output. The GPU of the tests is PyTorch's CPU, or NumPy."""

import json
import os
import shutil
import subprocess
import sys
import time
from types import SimpleNamespace

import chains
import numpy as np
import pytest
import reference
from test_bench import TorchTensors, raising

from fashion_infer.bench import network as bench
from fashion_infer.bench import random_network
from fashion_infer.bench.machines import cpu, tensors
from fashion_infer.bench.peers import torch_compile
from fashion_infer.errors import DeviceError, UsageError
from fashion_infer.judging import networks
from fashion_infer.library import bindings
from fashion_infer.library import devices as library_devices
from fashion_infer.library.fused import FusedNetwork

CPU = ("bench", "net", "--backend", "cpu", "--repeat", "2")
GPU = ("bench", "net", "--backend", "gpu", "--repeat", "2")
EDITIONS = ("fa2017", "sp2018", "fa2018", "sp2019", "fa2019", "fa2020")


def oracle(network, images):
    """Return scores in float64. The oracle is written out for the editions and does not use their list of layers."""
    w = {name: weight.astype(np.float64) for name, weight in network.weights.items()}
    nonlinear = (lambda x: np.maximum(x, 0)) if network.edition == "fa2020" else np.tanh
    x = nonlinear(reference.convolve(images, w["new0_weight"]))
    x = np.maximum.reduce([x[:, :, i::2, j::2] for i in (0, 1) for j in (0, 1)])
    if "new1_weight" in w:
        x = reference.convolve(x, w["new1_weight"])
    if network.edition == "fa2020":  # 34 pixels per side: eight windows of 4 and one of 2, which is padded
        x = np.maximum(np.pad(x, ((0, 0), (0, 0), (0, 2), (0, 2))), 0)
        x = np.maximum.reduce([x[:, :, i::4, j::4] for i in range(4) for j in range(4)])
    x = nonlinear(x.reshape(len(x), -1) @ w["fullyconnected0_weight"].T + w["fullyconnected0_bias"])
    x = np.exp(x @ w["fullyconnected1_weight"].T + w["fullyconnected1_bias"])
    return x / x.sum(axis=1, keepdims=True)


@pytest.fixture(params=EDITIONS)
def network(request):
    return random_network.build(request.param)


@pytest.fixture(params=chains.COURSE)
def fusible(request):
    """A network that the fused mode supports."""
    return random_network.build(request.param)


@pytest.fixture
def small():
    return random_network.build("fa2017")


class WrongNetwork(FusedNetwork):
    def forward(self, data, layer_times=False, out=None):
        out = super().forward(data, layer_times, out)
        out *= np.float32(1.001)
        return out


class LastImageMissing(FusedNetwork):
    """A network whose scores are correct, but which does not write those of the last image into a given output."""

    def forward(self, data, layer_times=False, out=None):
        found = super().forward(data, layer_times)
        if out is None:
            return found
        out[:-1] = found[:-1]
        return out


def outputs(network, images):
    return networks.run(network.layers, network.weights, images)


def case_rows(result, **wanted):
    case = next(c for c in result["cases"] if all(c[key] == value for key, value in wanted.items()))
    return {row["name"]: row for row in case["rows"]}


def test_json_plot_and_markdown(invoke, tmp_path):
    files = ("--plot", tmp_path / "r.png", "--markdown", tmp_path / "r.md")
    batches = ("--batch", "5,1", "--batch", "5")
    editions = ("--edition", "fa2017", "--edition", "sp2018")
    code, out, _ = invoke(*CPU, *editions, *batches, "--against", "none", "--json", *files)
    result = json.loads(out)
    assert result["batches"] == [1, 5] and result["not_compared"] == {} and result["device"]["threads"] > 0
    assert code == 0 and [(c["edition"], c["batch"], c["where"]) for c in result["cases"]] == [
        (edition, batch, "memory") for edition in ("fa2017", "sp2018") for batch in (1, 5)
    ]
    for check in result["logits"]:
        assert check["status"] == "ok" and check["error"] < 2e-6 and check["changed"] == 0
    row = case_rows(result, edition="fa2017", batch=5)["fashion-infer"]
    assert row["kind"] == "ours" and row["precision"] == "float32" and row["error"] < 4e-6 and row["changed"] == 0
    assert 0 < row["min_ms"] <= row["median_ms"] and row["runs"] == 2 and row["p99_ms"] is None
    assert row["images_s"] == pytest.approx(5e3 / row["median_ms"])
    assert (tmp_path / "r.png").read_bytes().startswith(b"\x89PNG")
    text = (tmp_path / "r.md").read_text()
    assert "fa2017, 1 image" in text
    assert "(r.png)" in text and result["command"] + " --json --plot r.png --markdown r.md > r.json" in text
    assert "--edition fa2017 --edition sp2018 --backend cpu --against none --batch 1,5 --repeat 2" in text


def test_many_runs_give_a_99th_percentile(invoke):
    code, out, _ = invoke("bench", "net", "--backend", "cpu", "--batch", "1", "--against", "none", "--json")
    row = case_rows(json.loads(out), batch=1)["fashion-infer"]
    assert code == 0 and row["runs"] == 300 and row["min_ms"] <= row["median_ms"] <= row["p99_ms"]


@pytest.mark.parametrize("name", ["torch", "onnxruntime", "mxnet"])
def test_peers_are_timed_and_compared(invoke, name):
    for module in {"mxnet": [], "onnxruntime": ["onnxruntime", "onnx"]}.get(name, [name]):
        pytest.importorskip(module)
    code, out, _ = invoke(*CPU, "--batch", "3", "--against", name, "--json")
    assert code == 0
    result = json.loads(out)
    assert name in result["versions"]
    rows = case_rows(result, batch=3)
    assert list(rows) == ["fashion-infer", name] and rows[name]["error"] < 4e-6 and rows[name]["changed"] == 0
    ratio = rows[name]["median_ms"] / rows["fashion-infer"]["median_ms"]
    assert rows["fashion-infer"]["faster_than"] == {name: pytest.approx(ratio)} and rows[name]["faster_than"] == {}


@pytest.mark.parametrize("name", ["torch", "onnxruntime", "mxnet"])
def test_peers_compute_every_edition(network, name):
    for module in {"mxnet": [], "onnxruntime": ["onnxruntime", "onnx"]}.get(name, [name]):
        pytest.importorskip(module)
    images = network.images(3)
    for contender in cpu.Cpu.network_peers[name](network, images.astype(np.float32), 1):
        scores = contender.sample(contender.run(), np.array([0, 2]))
        assert np.abs(scores - oracle(network, images[[0, 2]])).max() < 2e-5


def test_fused_networks_compute_every_edition(fusible):
    images = fusible.images(3)
    scores = FusedNetwork(fusible.symbol, fusible.weights, fusible.shape).forward(images)
    assert np.abs(scores - oracle(fusible, images)).max() < 2e-5


def test_the_reference_of_the_bench_equals_the_oracle(network):
    images = network.images(40)  # more than one batch
    logarithms = outputs(network, images)
    assert np.allclose(np.exp(logarithms), oracle(network, images), rtol=1e-9)
    logits = outputs(network.logits(), images)
    assert np.allclose(networks.log_softmax(logits), logarithms, rtol=1e-12)


def test_parts_of_a_network(fusible):
    images = fusible.images(2)
    for part in (fusible.first_stage(), fusible.logits()):
        found = FusedNetwork(part.symbol, part.weights, part.shape).forward(images)
        assert np.allclose(found, outputs(part, images), atol=3e-5)
    assert len(FusedNetwork(fusible.first_stage().symbol, fusible.weights, fusible.shape).stages) == 1


@pytest.mark.parametrize("wrong", [WrongNetwork, LastImageMissing])
def test_an_incorrect_network_is_reported_and_not_timed(invoke, monkeypatch, tmp_path, wrong):
    monkeypatch.setattr(bench, "FusedNetwork", wrong)
    files = ("--plot", tmp_path / "r.png", "--markdown", tmp_path / "r.md")
    code, out, err = invoke(*CPU, "--batch", "4", "--against", "none", "--json", *files)
    assert code == 1 and "WRONG: " in (tmp_path / "r.md").read_text() and "fashion-infer on fa2017" in err
    assert all(row["median_ms"] is None for case in json.loads(out)["cases"] for row in case["rows"])
    assert (tmp_path / "r.png").is_file()


def test_a_network_that_fails_is_incorrect(invoke, monkeypatch):
    monkeypatch.setattr(bench.FusedNetwork, "forward", raising(DeviceError("device lost")))
    code, out, _ = invoke(*CPU, "--batch", "1", "--against", "none")
    assert code == 1 and "device lost" in out


def test_progress_is_shown_on_a_terminal_and_tables_in_a_pipe():
    ours, theirs = os.openpty()
    words = ("bench", "net", "--backend", "cpu", "--batch", "1,2", "--repeat", "1", "--against", "none")
    terminal = {**os.environ, "TERM": "xterm"}  # a dumb one shows no progress
    program = subprocess.Popen(
        [sys.executable, "-m", "fashion_infer", *words], stdout=subprocess.PIPE, stderr=theirs, text=True, env=terminal
    )
    os.close(theirs)
    seen = b""
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:  # Linux reports EIO when a terminal's last writer has closed it
            break
        seen += piece
    out, _ = program.communicate(timeout=60)
    os.close(ours)
    assert program.returncode == 0 and b"100%" in seen and b" left" in seen
    assert "images/s" in out and " left" not in out and "\x1b" not in out and b"images/s" not in seen


class TestCompiler:
    """Tests of the peer torch.compile, with a stand-in for the compiler, which would take too long."""

    @pytest.fixture(autouse=True)
    def _compiler(self, monkeypatch):
        monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/c++")

    def test_compilation_that_takes_too_long(self, torch, monkeypatch):
        monkeypatch.setattr(torch, "compile", lambda function, **options: lambda x: time.sleep(5))
        with pytest.raises(DeviceError, match=r"it compiled for more than 0\.1 s"):
            torch_compile.compile_in_time(torch, None, torch.zeros(1), limit=0.1)

    def test_compilation_that_fails(self, torch, monkeypatch):
        monkeypatch.setattr(torch, "compile", lambda function, **options: raising(ValueError("\nno such op\nhint")))
        with pytest.raises(DeviceError, match=r"it does not compile \(ValueError: no such op\)"):
            torch_compile.compile_in_time(torch, None, torch.zeros(1))

    def test_no_compiler(self, torch, monkeypatch):
        monkeypatch.setattr(shutil, "which", lambda name: None)
        with pytest.raises(DeviceError):
            torch_compile.compile_in_time(torch, None, torch.zeros(1))

    def test_torch_compile_as_a_peer(self, torch, monkeypatch, small):
        monkeypatch.setattr(torch, "compile", lambda function, **options: function)
        # To import the real module takes ten seconds.
        monkeypatch.setitem(vars(torch), "_dynamo", SimpleNamespace(reset=lambda: None))
        images = small.images(2)
        (contender,) = cpu.Cpu.network_peers["torch-compile"](small, images.astype(np.float32), 1)
        scores = contender.sample(contender.run(), np.array([0, 1]))
        assert contender.name == "torch-compile" and np.abs(scores - oracle(small, images)).max() < 2e-5


class NetworkOnDevice(FusedNetwork):
    """A network on the CPU, as a stand-in for one on a GPU, without half precision."""

    launched = None  # the fixture sets this to a list

    def __init__(self, symbol, weights, shape, backend, device, precision):
        assert backend == "gpu" and device == 0
        if precision == "fp16":
            raise UsageError("the network has no fp16")
        super().__init__(symbol, weights, shape)

    def launch(self, n, data, dtype, out, stream):
        self.launched.append((n, np.dtype(dtype).name, stream))
        kind = bindings.element_type(dtype)
        bindings.check(self._library.fops_network_forward(self._handle, n, data, kind, out, 0))


@pytest.fixture
def gpu(monkeypatch, torch):
    """A fake machine with one GPU, whose networks run on the CPU."""
    device = library_devices.CudaDevice(0, "GPU of PyTorch", (9, 0), 132, 140 << 30, 139 << 30, "13.0", "13.0")
    monkeypatch.setattr(library_devices, "cuda_devices", lambda: [device])
    monkeypatch.setattr(tensors, "find", TorchTensors)
    monkeypatch.setattr(bench, "FusedNetwork", NetworkOnDevice)
    monkeypatch.setattr(NetworkOnDevice, "launched", [])
    monkeypatch.setattr(torch._dynamo, "reset", lambda: None)
    monkeypatch.setattr(torch_compile, "compile_in_time", lambda torch, function, x: function)


class TestGpu:
    def test_end_to_end(self, gpu, invoke, tmp_path):
        files = ("--plot", tmp_path / "r.png", "--markdown", tmp_path / "r.md")
        code, out, err = invoke(*GPU, "--batch", "3,1", "--json", *files)
        assert code == 0 and not err and "the network has no fp16" in (tmp_path / "r.md").read_text()
        result = json.loads(out)
        places = [(c["where"], c["batch"]) for c in result["cases"]]
        assert places == [("device", 1), ("host", 1), ("device", 3), ("host", 3), ("stage", 3)]
        peers = ["torch fp32", "torch tf32", "torch-compile fp32", "torch-compile tf32"]
        for where in ("device", "host", "stage"):
            rows = case_rows(result, where=where, batch=3)
            assert list(rows) == ["fashion-infer", "fashion-infer tf32", *peers]
            assert all(row["median_ms"] > 0 for row in rows.values())
            assert set(rows["fashion-infer tf32"]["faster_than"]) == set(peers)
            assert where == "host" or all(row["error"] < 4e-6 for row in rows.values())
            assert all(row["changed"] == (None if where == "stage" else 0) for row in rows.values())
        assert (3, "uint8", 7) in NetworkOnDevice.launched
        assert "compute capability 9.0" in (tmp_path / "r.md").read_text()

    def test_wrong_predictions_on_the_host(self, gpu, invoke, monkeypatch):
        real = NetworkOnDevice.predict
        monkeypatch.setattr(NetworkOnDevice, "predict", lambda self, data, out: real(self, data, out) + 1)
        code, out, err = invoke(*GPU, "--batch", "4", "--against", "none")
        assert code == 1 and "4 of 4 predictions" in out and "(host, 4)" in err
