"""`bench net --device all`: a stream of images through one GPU and through all. The GPUs are fakes on the CPU."""

import json
import threading

import numpy as np
import pytest
from test_bench import Tensors

from fashion_infer.bench import stream
from fashion_infer.bench.machines import tensors
from fashion_infer.bench.request import BenchRequest
from fashion_infer.errors import DeviceError
from fashion_infer.library import devices as library_devices
from fashion_infer.library import kernels
from fashion_infer.library.fused import FusedNetwork

SMALL = ("bench", "net", "--device", "all", "--images", "1010", "--batch", "100", "--repeat", "2")


class Pinned(Tensors):
    """Tensors whose `pinned` returns ordinary memory."""

    def pinned(self, array):
        return array.copy()


@pytest.fixture
def gpus(monkeypatch):
    """A fake machine with two GPUs, whose networks run on the CPU. The value is a list of (gpu, images, thread) per
    pass.
    """
    found = [library_devices.CudaDevice(i, "GPU", (9, 0), 132, 1 << 37, 1 << 37, "13.0", "13.0") for i in range(2)]
    passes = []

    class Fused(FusedNetwork):
        def __init__(self, symbol, weights, shape, backend, device):
            super().__init__(symbol, weights, shape=shape)
            self.gpu = device

        def predict(self, data, out=None):
            passes.append((self.gpu, len(data), threading.get_ident()))
            return super().predict(data, out)

    monkeypatch.setattr(library_devices, "cuda_devices", lambda: found)
    monkeypatch.setattr(kernels, "table", lambda backend="cpu": [kernels.Kernel("auto", "", "", "float32")])
    monkeypatch.setattr(tensors, "find", Pinned)
    monkeypatch.setattr(stream, "FusedNetwork", Fused)
    return passes


def test_json_and_markdown(gpus, invoke, tmp_path):
    files = ("--json", tmp_path / "s.json", "--markdown", tmp_path / "s.md")
    code, out, err = invoke(*SMALL, *files)
    assert code == 0 and not err and "2 GPUs" in out and "x one GPU" in out
    result = json.loads((tmp_path / "s.json").read_text())
    assert [passes["gpus"] for passes in result["passes"]] == [[0], [0, 1]]
    assert all(len(passes["seconds"]) == 2 and min(passes["seconds"]) > 0 for passes in result["passes"])
    assert result["request"] == {"edition": "fa2017", "images": 1010, "batch": 100, "repeat": 2}
    words = "fashion-infer bench net --edition fa2017 --backend gpu --device all --images 1010 --batch 100 --repeat 2"
    assert result["command"] == words and f"{words} --json s.json --markdown s.md" in (tmp_path / "s.md").read_text()
    assert {gpu for gpu, _, _ in gpus} == {0, 1}
    # 4 calls that fill buffers, then 2 sizes on each of 6 threads as warm-up, then 11 batches in each of 4 passes.
    assert len(gpus) == 4 + 2 * 6 + 11 * 4 and sum(count for _, count, _ in gpus[-11:]) == 1010


def test_a_machine_with_one_gpu(gpus, invoke, monkeypatch):
    one = library_devices.cuda_devices()[:1]
    monkeypatch.setattr(library_devices, "cuda_devices", lambda: one)
    code, out, _ = invoke(*SMALL)
    assert code == 0 and "1 GPU" in out and "2 GPUs" not in out


@pytest.mark.parametrize("way", ["order", "arithmetic"])
def test_wrong_predictions_are_found(gpus, invoke, monkeypatch, way):
    real, calls = stream._Lane.predict, []

    def predict(lane, images, to):
        real(lane, images, to)
        calls.append(len(to))
        if way == "arithmetic" and len(calls) == 1:
            to[7:9] = (to[7:9] + 1) % 10
        if way == "order" and len(calls) > 20:
            to[...] = np.roll(to, 1)

    monkeypatch.setattr(stream._Lane, "predict", predict)
    code, out, err = invoke(*SMALL)
    assert code == 1 and "wrong" in err and "predictions differ" in out


def test_a_lost_gpu_is_an_error(gpus, invoke, monkeypatch):
    def lost(lane, images, to):
        raise DeviceError("the GPU is lost")

    monkeypatch.setattr(stream._Lane, "predict", lost)
    code, _, err = invoke(*SMALL)
    assert code == 4 and "the GPU is lost" in err and err.count("\n") == 1


def test_memory_does_not_grow_with_the_images(gpus):
    requests = (BenchRequest(backend="gpu", images=n, batches=(50,), repeat=1) for n in (100, 1500))
    small, large = (stream.Stream(request).measure() for request in requests)
    assert small.wrong == large.wrong == []
    assert all(passes.grown < 64 << 20 for result in (small, large) for passes in result.passes)


@pytest.mark.parametrize(
    "words",
    [
        ("--device", "all", "--against", "torch"),
        ("--device", "all", "--backend", "cpu"),
        ("--device", "all", "--images", "0"),
        ("--device", "all", "--batch", "1,2"),
        ("--device", "all", "--edition", "fa2017", "--edition", "sp2018"),
        ("--device", "all", "--save", "stream"),
        ("--images", "5"),
    ],
    ids=" ".join,
)
def test_mistakes_are_one_line(invoke, words):
    code, out, err = invoke("bench", "net", *words)
    assert code == 2 and err.count("\n") == 1 and not out


def test_predictions_are_class_numbers(gpus):
    seen = np.full(3, 255, np.uint8)
    network = stream.random_network.build("fa2017")
    stream._Lane(network, 0, np.empty(3, np.int32)).predict(network.images(3), seen)
    assert (seen < 10).all()
