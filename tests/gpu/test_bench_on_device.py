"""The parts of the benchmarks that need a device: tensors of PyTorch and CuPy, and comparison with other libraries."""

import sys

import pytest

from fashion_infer.bench.conv import Convolutions
from fashion_infer.bench.machines import tensors
from fashion_infer.bench.network import Networks
from fashion_infer.bench.request import BenchRequest
from fashion_infer.errors import DeviceError
from fashion_infer.library import kernels


@pytest.fixture(autouse=True)
def _library_with_cuda():
    try:
        table = kernels.table("gpu")
    except DeviceError as error:
        pytest.skip(str(error))
    if not table:
        pytest.skip("the library has no CUDA part")


@pytest.mark.parametrize("framework", ["torch", "cupy"])
def test_kernels_are_correct_and_timed(framework, monkeypatch):
    pytest.importorskip(framework)
    wanted = {"torch": tensors.TorchTensors, "cupy": tensors.CupyTensors}[framework]
    if framework == "cupy":
        monkeypatch.setitem(sys.modules, "torch", None)
    assert isinstance(tensors.find(0), wanted)
    result = Convolutions(BenchRequest(("fa2017", "sp2018"), "gpu", batches=(200,), repeat=4)).measure()
    assert result.wrong == [] and len(result.cases) == 3
    assert ("cudnn" in result.not_compared) == (framework == "cupy")
    for case in result.cases:
        for row in case.rows:
            assert row.status == "skipped" or row.median_ms > 0


@pytest.mark.parametrize("framework", ["torch", "cupy"])
def test_networks_are_correct_and_timed(framework, monkeypatch):
    pytest.importorskip(framework)
    if framework == "cupy":
        monkeypatch.setitem(sys.modules, "torch", None)
    result = Networks(BenchRequest(("fa2017", "fa2019"), "gpu", 0, "torch", (1, 300), 4)).measure()
    assert result.wrong == [] and len(result.cases) == 10
    assert ("torch" in result.not_compared) == (framework == "cupy")
    for case in result.cases:
        assert case.rows[0].name == "fashion-infer"
        assert case.peers == (["torch fp32", "torch tf32"] if framework == "torch" else [])
        assert all(row.median_ms > 0 for row in case.rows)
