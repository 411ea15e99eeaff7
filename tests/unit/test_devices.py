"""The backend that a request uses, on fake machines with and without GPUs."""

import threading
import time

import numpy as np
import pytest

from fashion_infer import _mxnet, devices
from fashion_infer.errors import DeviceError
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
