"""The backend that a request uses, on fake machines with and without GPUs."""

import threading
import time

import numpy as np
import pytest
import reference
from test_predictor import forward64, random_checkpoint

from fashion_infer import _mxnet, devices
from fashion_infer.errors import DeviceError
from fashion_infer.inference import predictor
from fashion_infer.inference.layer_times import LayerResult, of_slowest_devices
from fashion_infer.library import devices as cuda
from fashion_infer.library import kernels
from fashion_infer.system.sharing import share


def machine(monkeypatch, capabilities=(), build="cpu", reason="no NVIDIA driver"):
    """Fake a machine with GPUs of these compute capabilities, a library with CUDA, and this build of MXNet."""

    def found():
        if not capabilities:
            raise DeviceError(reason)
        return [
            cuda.CudaDevice(i, f"GPU {c}", c, 100, 8 << 30, 7 << 30, "13.0", "13.0") for i, c in enumerate(capabilities)
        ]

    kernel = kernels.Kernel("tensor-core", "", "", "float32")
    monkeypatch.setattr(cuda, "cuda_devices", found)
    monkeypatch.setattr(kernels, "table", lambda backend="cpu": [kernel])
    monkeypatch.setattr(_mxnet, "build", lambda: build)


def test_backend_cpu_does_not_query_devices(monkeypatch):
    monkeypatch.setattr(cuda, "cuda_devices", lambda: pytest.fail("looked"))
    assert devices.choose("cpu") == ("cpu", "cpu", None)


def test_auto_falls_back_to_the_cpu_with_a_notice(monkeypatch):
    machine(monkeypatch)
    assert devices.choose("auto") == ("cpu", "cpu", "running on the CPU: no NVIDIA driver")
    with pytest.raises(DeviceError):
        devices.choose("gpu")


def test_auto_on_a_cpu_build_gives_no_notice(monkeypatch):
    machine(monkeypatch)
    monkeypatch.setattr(kernels, "table", lambda backend="cpu": [])
    assert devices.choose("auto") == ("cpu", "cpu", None)


@pytest.mark.parametrize("backend", ["auto", "gpu"])
@pytest.mark.parametrize(
    "capability, build, context, words",
    [
        ((9, 0), "cpu", "cpu", "copies its tensors there and back, because this is MXNet's CPU build"),
        ((9, 0), "cu112", "cpu", "no code for compute capability 9.0"),
        ((8, 9), "cu112", "gpu", "the whole network runs there"),
        ((7, 5), "cu112", "gpu", "the whole network runs there"),
        ((12, 0), "cu112", "cpu", "no code for compute capability 12.0"),
    ],
)
def test_mxnets_context(monkeypatch, backend, capability, build, context, words):
    machine(monkeypatch, [capability], build)
    choice = devices.choose(backend)
    assert (choice.backend, choice.context) == ("gpu", context) and words in choice.notice


def test_device_numbers(monkeypatch):
    machine(monkeypatch, [(9, 0), (8, 0)])
    assert "GPU 1, GPU (8, 0)" in devices.choose("gpu", 1).notice
    for wrong in (2, -1):
        with pytest.raises(DeviceError):
            devices.choose("gpu", wrong)
    assert devices.choose("auto", 2).backend == "cpu"


def two_gpus(monkeypatch, count=2):
    """Fake a machine with `count` GPUs."""
    found = [cuda.CudaDevice(i, "GPU", (9, 0), 132, 1 << 37, 1 << 37, "13.0", "13.0") for i in range(count)]
    monkeypatch.setattr(cuda, "cuda_devices", lambda: found)
    monkeypatch.setattr(kernels, "table", lambda backend="cpu": [kernels.Kernel("auto", "", "", "float32")])


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_tasks_are_done_once_and_taken_in_order(workers):
    rng, handed, done = np.random.default_rng(), [], {}
    naps = rng.uniform(0, 2e-3, 40)

    def tasks():
        for task in range(40):
            handed.append(task)
            yield task

    def work(worker, task):
        time.sleep(naps[task])
        assert task not in done
        done[task] = worker, threading.get_ident()

    share(range(workers), tasks(), work)
    assert handed == list(range(40)) and set(done) == set(handed)
    threads = {}
    for worker, thread in done.values():
        assert threads.setdefault(worker, thread) == thread  # each worker has one thread


@pytest.mark.parametrize("place", ["task", "generator"])
def test_the_first_error_ends_all_workers(place):
    begun = []

    def tasks():
        for task in range(10**6):
            if place == "generator" and task == 5:
                raise DeviceError("lost")
            yield task

    def work(worker, task):
        begun.append(task)
        if place == "task" and task == 5:
            raise DeviceError("lost")
        time.sleep(1e-3)

    with pytest.raises(DeviceError, match="lost"):
        share(range(3), tasks(), work)
    assert len(begun) < 100


@pytest.mark.parametrize("mode", ["fused", "operator"])
@pytest.mark.parametrize("count, batch_size", [(23, None), (23, 4), (1, None), (2, 1)])
def test_results_are_in_the_images_order(mode, count, batch_size):
    checkpoint = random_checkpoint()
    images = reference.pixels(np.random.default_rng(), (count, 1, 28, 28))
    options = {"mode": mode, "batch_size": batch_size}
    networks = [predictor.Predictor(checkpoint, first_node=i * predictor.NODES, **options) for i in range(3)]
    together = predictor.SpreadPredictor(networks, count)
    alone, times = predictor.Predictor(checkpoint, **options).predict(images)
    for _ in range(2):
        scores, spread_times = together.predict(images)
        assert np.abs(scores - forward64(checkpoint.weights, images)).max() < 2e-6
        # In operator mode, the rounding of MXNet's own dense layers depends on the slice's size.
        assert np.abs(scores - alone).max() <= (0 if mode == "fused" else 1e-6)
        assert [(t.name, t.operator, t.kernel) for t in spread_times] == [(t.name, t.operator, t.kernel) for t in times]
        assert all(t.median > 0 for t in spread_times)
        # The logs of all devices together have every image once.
        logged = [t for t in spread_times if t.log[0]]
        assert logged and all(sum(record.shape[0] for record in t.log[0]) == count for t in logged)
    assert together.batch_size == min(batch_size or count, -(-count // 3))


def test_a_layers_time_is_the_slowest_devices():
    def layer(name, seconds, log=()):
        return LayerResult(name, "New", "auto", True, (seconds,), (seconds / 2,), (seconds / 4,), (log,))

    found = of_slowest_devices(
        [[layer("a", 1.0, ("x",)), layer("b", 5.0)], [layer("a", 3.0, ("y",)), layer("b", 2.0)], []]
    )
    assert found == [layer("a", 3.0, ("x", "y")), layer("b", 5.0)]


def test_device_all_means_all_gpus(monkeypatch):
    two_gpus(monkeypatch)
    assert devices.indices("all") == (0, 1) and devices.indices(1) == (1,)
    choice = devices.choose("auto", "all", "fused")
    assert choice.backend == "gpu" and "GPUs 0 and 1, GPU" in choice.notice and "split" in choice.notice
    two_gpus(monkeypatch, 1)
    assert devices.indices("all") == (0,) and "GPU 0, GPU" in devices.choose("gpu", "all").notice


def test_all_on_a_machine_without_a_gpu(invoke, monkeypatch):
    def none():
        raise DeviceError("no NVIDIA driver")

    monkeypatch.setattr(cuda, "cuda_devices", none)
    words = ("--device", "all", "--n", "10", "--data", "synthetic")
    assert invoke("run", *words)[0] == 0
    code, _, err = invoke("run", "--backend", "gpu", *words)
    assert code == 4 and err.count("\n") == 1


def test_two_networks_at_the_same_time_in_mxnet(run_python):
    """The test runs in a separate process, because MXNet reads its number of threads only once."""
    program = """
import numpy as np
from fashion_infer import _mxnet
from fashion_infer.inference import predictor
_mxnet.set_networks(2)
import sys; sys.path.insert(0, "tests/unit")
from test_predictor import random_checkpoint, forward64
checkpoint = random_checkpoint()
images = np.random.default_rng().integers(0, 256, (300, 1, 28, 28), dtype=np.uint8)
for mode in ("fused", "operator"):
    networks = [
        predictor.Predictor(checkpoint, mode=mode, batch_size=10, first_node=i * predictor.NODES) for i in (0, 1)
    ]
    scores, _ = predictor.SpreadPredictor(networks, 300).predict(images)
    assert np.abs(scores - forward64(checkpoint.weights, images)).max() < 2e-6
"""
    done = run_python(program)
    assert done.returncode == 0, done.stderr
