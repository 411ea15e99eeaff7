"""`fashion-infer bench conv`: its checks, counts and output. The GPU of the tests is a fake made with NumPy."""

import csv
import importlib.util
import json
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import reference

from fashion_infer.bench import checking, conclusions, records, timing
from fashion_infer.bench.conv import Convolutions
from fashion_infer.bench.machines import cpu, tensors
from fashion_infer.bench.records import LIMIT, OURS, PEER, WRONG, BenchCase, BenchResult, ConvolutionShape, Measurement
from fashion_infer.bench.request import BenchRequest
from fashion_infer.bench.timing import Contender
from fashion_infer.checkpoints import editions
from fashion_infer.errors import DeviceError, UsageError
from fashion_infer.library import bindings, kernels
from fashion_infer.library import devices as library_devices
from fashion_infer.present.bench import columns

ROOT = Path(__file__).resolve().parents[2]
CPU = ("bench", "conv", "--backend", "cpu", "--batch", "3", "--repeat", "2")
GPU = ("bench", "conv", "--backend", "gpu", "--batch", "3", "--repeat", "2")


class Tensors:
    """NumPy stand-in for the tensors of PyTorch in a benchmark."""

    @property
    def torch(self):
        raise ImportError("PyTorch with CUDA is not installed")

    def __init__(self, device=0):
        pass

    def versions(self):
        return {"numpy": np.__version__}

    def put(self, array):
        return array.copy()

    def empty(self, shape):
        return np.empty(shape, np.float32)

    def fill(self, tensor, value):
        tensor.fill(value)

    def zero(self, tensor):
        self.fill(tensor, 0)

    def copy(self, to, source):
        to[...] = source

    def take(self, tensor, indices):
        return tensor[indices]

    def has_nan(self, tensor):
        return np.isnan(np.asarray(tensor)).any()

    def pointer(self, tensor):
        return tensor.ctypes.data

    def stream(self):
        return 7

    def event(self):
        return Event()

    def milliseconds(self, start, end):
        return 1e3 * (end.at - start.at)

    def head_start(self):
        pass


class TorchTensors(Tensors):
    """PyTorch on the CPU, as a stand-in for PyTorch on a device."""

    where = "cpu"
    torch = property(lambda self: importlib.import_module("torch"))

    def put(self, array):
        return self.torch.from_numpy(array.copy())

    def empty(self, shape):
        return self.torch.empty(tuple(shape))

    def fill(self, tensor, value):
        tensor.fill_(value)

    def take(self, tensor, indices):
        return tensor[indices].numpy()

    def pinned(self, array):
        return array.copy()

    def pointer(self, tensor):
        return tensor.data_ptr()

    def synchronize(self):
        pass


class Event:
    def record(self):
        self.at = time.perf_counter()

    def synchronize(self):
        pass


@pytest.fixture
def gpu(monkeypatch):
    """A fake machine with one GPU, which runs the CPU's kernels. The fixture's value is a list of the launches."""
    table, chosen, launched = kernels.table, kernels.chosen_kernel, []

    def launch(kernel, described, x, weight, y, stream):
        launched.append((kernel, stream))
        forward = bindings.load().fops_conv_forward_cpu
        bindings.check(forward(kernel.encode(), described, x, weight, y, bindings.NOT_LOGGED))

    device = library_devices.CudaDevice(0, "GPU of NumPy", (9, 0), 132, 140 << 30, 139 << 30, "13.0", "13.0")
    monkeypatch.setattr(library_devices, "cuda_devices", lambda: [device])
    monkeypatch.setattr(kernels, "table", lambda backend="cpu": table("cpu"))
    monkeypatch.setattr(
        kernels, "chosen_kernel", lambda x, k, backend="cpu", kernel="auto": chosen(x, k, "cpu", kernel)
    )
    monkeypatch.setattr(kernels, "launch", launch)
    monkeypatch.setattr(tensors, "find", Tensors)
    return launched


def spoiled_prepare(spoil):
    """Return a stand-in for `kernels.prepare` that calls spoil(kernel, y) on each output y."""
    real = kernels.prepare

    def prepare(x, weight, kernel="auto", **options):
        forward = real(x, weight, kernel, **options)

        def run():
            y = forward()
            spoil(kernel, y)
            return y

        return run

    return prepare


def raising(error):
    def call(*arguments, **options):
        raise error

    return call


def rows(layer):
    return {row["name"]: row for row in layer["rows"]}


def auto_kernel():
    return kernels.chosen_kernel((3, 1, 28, 28), (50, 1, 5, 5))


def test_json_plot_and_markdown(invoke, tmp_path):
    files = ("--plot", tmp_path / "k.png", "--markdown", tmp_path / "k.md")
    code, out, _ = invoke(*CPU, "--edition", "fa2017", "--edition", "sp2018", "--against", "none", "--json", *files)
    result = json.loads(out)
    auto = Counter(layer["auto"] for layer in result["cases"])
    assert code == 0 and sum(auto.values()) == 3
    assert result["batches"] == [3] and result["logits"] == []
    assert [(case["edition"], case["number"]) for case in result["cases"]] == [
        ("fa2017", 1),
        ("sp2018", 1),
        ("sp2018", 2),
    ]
    layer = result["cases"][0]
    assert layer["shape"] == {"B": 3, "C": 1, "H": 28, "W": 28, "M": 50, "K": 5} and layer["auto"] == auto_kernel()
    found = rows(layer)
    assert list(found) == ["fill", "copy", *reference.own_kernels("cpu")]
    row, step = found["shifted"], reference.own_kernels("cpu").index("shifted") + 1
    assert row["step"] == step and row["status"] == "ok" and row["error"] < 1e-6 and row["runs"] == 2
    assert 0 < row["min_ms"] <= row["median_ms"]
    flop, size = 2 * 3 * 50 * 24 * 24 * 25, 4 * (3 * 784 + 50 * 25 + 3 * 50 * 576)
    assert row["tflop_s"] == pytest.approx(flop / row["median_ms"] / 1e9)
    assert row["gb_s"] == pytest.approx(size / row["median_ms"] / 1e6)
    assert (tmp_path / "k.png").read_bytes().startswith(b"\x89PNG")
    text = (tmp_path / "k.md").read_text()
    assert "on 28x28, 3 images" in text
    assert "(k.png)" in text and result["command"] + " --json --plot k.png --markdown k.md > k.json" in text


@pytest.mark.parametrize(
    "fill, times, percents",
    [
        (1.0, (2.0, 4.0), (50, 25)),
        (1.0, (0.97, 4.0), (100, 25)),  # below the floor by less than the noise
        (1.0, (0.5, 4.0), (None, None)),  # below the floor by more than the noise: the floor is invalid
    ],
)
def test_percent_of_the_write_floor(fill, times, percents):
    rows = [records.Measurement("fill", records.LIMIT, median_ms=fill)]
    rows += [records.Measurement(str(ms), records.OURS, median_ms=ms) for ms in times]
    case = records.BenchCase("fa2017", "memory", 3, 3, rows, 1, ConvolutionShape(3, 1, 28, 28, 50, 5))
    case.rate({})
    assert tuple(row.percent_of_limit for row in rows[1:]) == percents and rows[0].percent_of_limit is None
    assert [row.name for row in case.below_floor] == (["0.5"] if percents[0] is None else [])


def test_the_floor_is_the_faster_fill():
    shape = ConvolutionShape(3, 1, 28, 28, 50, 5)
    work = cpu.Cpu().convolution(*checking.inputs(shape, True), shape.output)
    fills = [contender for contender, _ in work.limits() if contender.name == "fill"]
    assert len(fills) == 2
    for fill in fills:
        work.poison()
        assert not work.complete()
        fill.run()
        assert work.complete()
    best = timing.summaries({fills[0]: [3e-3, 1e-3, 2e-3], fills[1]: [9e-3]})["fill"]
    assert (best["layout"], best["median_ms"]) == (fills[0].layout, 2.0)


@pytest.mark.parametrize("name", list(cpu.Cpu.convolution_peers))
def test_peers_are_correct_and_timed(invoke, name):
    for module in {"mxnet": [], "onnxruntime": ["onnxruntime", "onnx"]}.get(name, [name]):
        pytest.importorskip(module)
    code, out, _ = invoke(*CPU, "--against", name, "--kernels", "auto", "--json")
    assert code == 0
    found = rows(json.loads(out)["cases"][0])
    auto = auto_kernel()
    assert list(found) == ["fill", "copy", auto, name]
    assert found[name]["error"] < 5e-6 and found[name]["median_ms"] > 0
    ratio = found[name]["median_ms"] / found[auto]["median_ms"]
    assert found[auto]["faster_than"] == {name: pytest.approx(ratio)}
    assert found[name]["faster_than"] == {}


def test_missing_peers_are_named_once(invoke, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    code, _, err = invoke(*CPU, "--kernels", "auto", "--against", "cudnn,torch,mxnet")
    assert code == 0 and err.count("\n") == 1 and all(name in err for name in ("cudnn", "torch", "mxnet"))


def test_a_peer_that_cannot_be_loaded(invoke, monkeypatch):
    monkeypatch.setitem(cpu.Cpu.convolution_peers, "torch", raising(ImportError("libfoo.so:\n cannot open")))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: "found")
    code, _, err = invoke(*CPU, "--kernels", "auto", "--against", "torch")
    assert code == 0 and "libfoo.so: cannot open" in err


@pytest.mark.parametrize("factor", [1.001, np.nan])
def test_an_incorrect_kernel_is_reported_and_not_timed(invoke, monkeypatch, tmp_path, factor):
    def spoil(kernel, y):
        if kernel == "naive":
            y *= factor

    monkeypatch.setattr(kernels, "prepare", spoiled_prepare(spoil))
    files = ("--markdown", tmp_path / "k.md", "--plot", tmp_path / "k.png")
    code, out, err = invoke(*CPU, "--against", "none", "--json", *files)
    assert code == 1 and "WRONG: naive" in (tmp_path / "k.md").read_text() and "naive" in err
    found = rows(json.loads(out, parse_constant=pytest.fail)["cases"][0])
    assert found["naive"]["status"] == "wrong" and found["naive"]["median_ms"] is None
    assert found["shifted"]["status"] == "ok"


def test_an_incorrect_kernel_of_ours_is_diagnosed(invoke, monkeypatch):
    def spoil(_, y):
        y[70:, 1:, :, -1] += 1e6

    monkeypatch.setattr(kernels, "prepare", spoiled_prepare(spoil))
    batch = ("--batch", "100")
    code, out, _ = invoke(*CPU, *batch, "--against", "none", "--kernels", "naive")
    said = " ".join(out.split())
    assert code == 1 and "y[70,1,0,23]" in said


def test_at_most_fifty_samples_are_stored():
    for runs, kept in ((1, 1), (50, 50), (51, 26), (300, 50)):
        (found,) = timing.summaries({Contender("a", None): [i / 1e3 for i in range(1, runs + 1)]}).values()
        samples = found["samples_ms"]
        assert found["runs"] == runs and len(samples) == kept and samples[0] == 1.0


def test_outliers():
    ms = [3.0, 1.0, 2.0, 4.0, 9.0, 2.5, 3.5, 2.0]
    (found,) = timing.summaries({Contender("a", None): [one / 1e3 for one in ms]}).values()
    assert (found["max_ms"], found["outliers"]) == (pytest.approx(9.0), 1)
    (single,) = timing.summaries({Contender("a", None): [1.0]}).values()
    assert single["outliers"] == 0


def test_csv_has_a_line_for_each_measurement(invoke, tmp_path):
    file = tmp_path / "k.csv"
    code, out, _ = invoke(*CPU, "--warmup", "2", "--kernels", "naive", "--against", "none", "--csv", file, "--json")
    lines, wanted = list(csv.DictReader(file.open())), json.loads(out)["cases"][0]["rows"]
    assert code == 0 and [line["name"] for line in lines] == ["fill", "copy", "naive"]
    for line, one in zip(lines, wanted):
        assert line["edition"] == "fa2017" and line["batch"] == "3" and line["runs"] == "2"
        assert float(line["median_ms"]) == pytest.approx(one["median_ms"], rel=1e-6)
    assert "--warmup 2" in json.loads(out)["command"]


def test_a_kernel_that_fails_is_incorrect(invoke, monkeypatch):
    monkeypatch.setattr(kernels, "prepare", lambda *tensors, **options: raising(DeviceError("device lost")))
    code, out, _ = invoke(*CPU, "--against", "none", "--kernels", "naive")
    assert code == 1 and "device lost" in out


def test_a_kernel_that_does_not_support_the_layer(invoke, monkeypatch):
    real = kernels.chosen_kernel

    def chosen(x_shape, k_shape, backend="cpu", kernel="auto"):
        if kernel == "naive":
            raise UsageError("naive takes no such layer")
        return real(x_shape, k_shape, backend, kernel)

    monkeypatch.setattr(kernels, "chosen_kernel", chosen)
    code, out, _ = invoke(*CPU, "--against", "none")
    assert code == 0 and "naive" not in out
    _, out, _ = invoke(*CPU, "--against", "none", "--json")
    assert rows(json.loads(out)["cases"][0])["naive"]["status"] == "skipped"


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory")])
def test_out_of_memory(invoke, monkeypatch, error):
    monkeypatch.setattr(cpu.Cpu, "convolution", raising(error))
    assert invoke(*CPU)[0::2] == (4, "fashion-infer: out of memory: use a smaller --batch\n")


def test_a_batch_larger_than_memory_is_refused(invoke):
    code, _, err = invoke(*CPU, "--batch", 10**9)
    assert code == 4 and "use a smaller --batch" in err and err.count("\n") == 1


class TestGpu:
    def test_end_to_end(self, gpu, invoke, tmp_path):
        files = ("--markdown", tmp_path / "k.md", "--plot", tmp_path / "k.png")
        code, out, err = invoke(*GPU, "--json", *files)
        assert code == 0 and "TFLOP/s" in (tmp_path / "k.md").read_text() and "not compared with cudnn" in err
        assert ("shifted", 7) in gpu and ("naive", 7) in gpu
        result = json.loads(out)
        assert result["device"]["name"] == "GPU of NumPy" and result["batches"] == [3]
        assert all(row["median_ms"] > 0 for row in result["cases"][0]["rows"])

    def test_auto_uses_the_gpu(self, gpu, invoke):
        assert invoke("bench", "conv", "--batch", "1", "--repeat", "1", "--kernels", "auto")[0] == 0
        assert gpu

    def test_cudnn_uses_the_better_layout(self, gpu, invoke, monkeypatch, torch):
        monkeypatch.setattr(tensors, "find", TorchTensors)
        code, out, _ = invoke(*GPU, "--json")
        assert code == 0
        found = rows(json.loads(out)["cases"][0])
        assert list(found)[-2:] == ["cudnn fp32", "cudnn tf32"]
        assert found["cudnn fp32"]["layout"] in ("NCHW", "NHWC") and found["cudnn fp32"]["error"] < 1e-6
        assert set(found["shifted"]["faster_than"]) == {"cudnn fp32", "cudnn tf32"}

    def test_without_pytorch(self, gpu, invoke, monkeypatch):
        monkeypatch.undo()
        monkeypatch.setitem(sys.modules, "torch", None)
        with pytest.raises(DeviceError):
            tensors.find(0)

    def test_a_failing_gpu_is_a_one_line_error(self, gpu, invoke, monkeypatch):
        error = RuntimeError("CUDA error: an illegal memory access was encountered\nCompile with TORCH_USE_CUDA_DSA")
        monkeypatch.setattr(Tensors, "has_nan", raising(error))
        code, _, err = invoke(*GPU)
        assert (
            code == 4 and err == "fashion-infer: the GPU failed: CUDA error: an illegal memory access was encountered\n"
        )

    def test_a_missing_device(self, gpu, invoke):
        code, _, err = invoke(*GPU, "--device", "1")
        assert code == 4 and "there is no GPU 1" in err

    def test_a_library_without_cuda(self, invoke, monkeypatch):
        monkeypatch.setattr(kernels, "table", lambda backend="cpu": [])
        with pytest.raises(DeviceError):
            Convolutions(BenchRequest(backend="gpu")).measure()


class Machine:
    slow = 1.0

    def time(self, run, n):
        return [run() for _ in range(n)]


def test_slow_contenders_get_fewer_runs_in_turns():
    order = []

    def contender(name, seconds):
        return Contender(name, lambda: order.append(name) or seconds)

    fast, slow = contender("fast", 0.1), contender("slow", 2.0)
    times = timing.interleaved(Machine(), [fast, slow], 9)
    assert len(times[fast]) == 9 and times[slow] == [2.0] * 3
    assert order[:2] == ["fast", "slow"] and order[2:5] == ["fast", "fast", "slow"]
    assert len(timing.interleaved(Machine(), [fast], 1)[fast]) == 1
    order.clear()
    assert len(timing.interleaved(Machine(), [slow], 9, warmup=4)[slow]) == 3 and len(order) == 6


def test_layers_instead_of_editions(invoke):
    words = ("--layers", "others", "--kernels", "auto", "--against", "none", "--batch", "1", "--repeat", "1")
    code, out, _ = invoke("bench", "conv", "--backend", "cpu", *words, "--json")
    assert code == 0
    result = json.loads(out)
    assert [case["number"] for case in result["cases"]] == list(range(1, 9)) and result["batches"] == [1]
    assert "--layers others" in result["command"] and "--edition" not in result["command"]


@pytest.mark.parametrize("kernel", ["compile-time", "constant-weights"])
def test_compile_time_sizes_include_every_edition(kernel):
    if not kernels.table("gpu"):
        pytest.skip("the library was built without CUDA")
    for edition in editions.EDITIONS.values():
        for channels, size, filters, side in editions.convolution_shapes(edition):
            shapes = (10, channels, size, size), (filters, channels, side, side)
            assert kernels.chosen_kernel(*shapes, "gpu", kernel) == kernel
    with pytest.raises(UsageError):
        kernels.chosen_kernel((1, 1, 28, 28), (50, 1, 7, 7), "gpu", kernel)


SHAPE = ConvolutionShape(10, 1, 28, 28, 50, 5)


def row(name, kind, ms, spread=0.0, **values):
    times = {}
    if ms is not None:
        samples = tuple(ms + spread * (place % 5 - 2) for place in range(20))
        times = {"median_ms": ms, "min_ms": min(samples), "samples_ms": samples, "runs": 20}
    return Measurement(name, kind, **{"precision": "float32" if kind == OURS else "", **times, **values})


def result(*cases, auto="direct"):
    made = [BenchCase("fa2017", "memory", 10, 10, rows, number, SHAPE, auto) for number, rows in enumerate(cases, 1)]
    for case in made:
        case.rate({})
    return BenchResult("conv", "cpu", {}, {}, "", [10], 20, {}, cases=made)


def test_a_file_compared_with_peer_floor_and_best_kernel():
    rows = [
        row("fill", LIMIT, 1.0),
        row("direct", OURS, 2.0),
        row("half", OURS, 1.5, precision="fp16"),  # a half-precision kernel is not the best float32 kernel
        row("mine.cpp", OURS, 4.0, file="./mine.cpp"),
        row("torch", PEER, 8.0),
        row("mxnet", PEER, 6.0),
    ]
    (found,) = conclusions.conclusions(result(rows))
    assert (found.name, found.auto, found.wrong, found.cases) == ("mine.cpp", False, "", 1)
    assert found.peer == ("mxnet", 1.5) and found.percent_of_floor == 25 and found.best == ("direct", 2.0)


def test_times_of_several_layers_are_summed():
    first = [row("fill", LIMIT, 1.0), row("direct", OURS, 2.0), row("torch", PEER, 3.0), row("mxnet", PEER, 1.0)]
    second = [row("fill", LIMIT, 3.0), row("shifted", OURS, 6.0), row("direct", OURS, 8.0), row("torch", PEER, 9.0)]
    (found,) = conclusions.conclusions(result(first, second))
    assert found.auto and found.cases == 2 and found.best is None
    assert found.peer == ("torch", pytest.approx(1.2))  # 12 ms / 10 ms; mxnet did not run on both layers
    assert found.percent_of_floor == pytest.approx(40) and not found.noise
    second[3] = row("torch", PEER, 9.0, spread=0.6)  # quartiles of 8.4 and 9.6 ms are a spread of 13%
    assert not conclusions.conclusions(result(first, second))[0].noise
    second[3] = row("torch", PEER, 9.0, spread=2.0)
    made = result(first, second)
    assert "44.4%" in conclusions.conclusions(made)[0].noise
    said = [[part.text for part in columns.case_parts(case)[1:]] for case in made.cases]
    assert not said[0] and len(said[1]) == 1 and "torch 44%" in said[1][0]


def test_a_file_that_is_wrong_for_one_layer():
    rows = [row("fill", LIMIT, 1.0), row("mine.cpp", OURS, 4.0, file="./mine.cpp")]
    other = [row("fill", LIMIT, 1.0), row("mine.cpp", OURS, None, file="./mine.cpp", status=WRONG, reason="why")]
    (found,) = conclusions.conclusions(result(rows, other))
    assert found.wrong == "why" and found.peer is None and found.percent_of_floor is None


def test_without_auto_there_is_no_conclusion():
    assert conclusions.conclusions(result([row("fill", LIMIT, 1.0), row("naive", OURS, 2.0)])) == []


@pytest.mark.parametrize(
    "ms, spread, beyond", [(1.9, 0.0, True), (1.9, 0.3, False), (1.99, 0.0, False), (2.0, 0.0, None), (2.1, 0.0, None)]
)
def test_whether_auto_is_the_fastest(ms, spread, beyond):
    made = result([row("direct", OURS, 2.0, spread), row("shifted", OURS, ms, spread)])
    found = conclusions.faster_than_auto(made.cases[0])
    if beyond is None:
        assert found is None
    else:
        best, ratio, is_beyond = found
        assert (best.name, is_beyond) == ("shifted", beyond) and ratio == pytest.approx(2.0 / ms)
