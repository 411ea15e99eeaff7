"""The benchmarks' parts that need a device: tensors of PyTorch and of CuPy, and peers."""

import os
import sys
from pathlib import Path

import pytest

from fashion_infer import _mxnet
from fashion_infer.errors import DeviceError
from fashion_infer.library import operators
from fashion_infer.measure import conv, net
from fashion_infer.measure.machines import cuda_tensors


@pytest.fixture(autouse=True)
def _library_with_cuda(monkeypatch):
    """The library under test, in place of the package's own."""
    named = os.environ.get("FASHION_OPS_LIBRARY")
    if named:
        monkeypatch.setattr(operators, "library_path", lambda: Path(named))
        operators.library.cache_clear()
    try:
        kernels = operators.kernels("gpu")
    except DeviceError as error:
        pytest.skip(str(error))
    if not kernels:
        pytest.skip("the library has no CUDA part")


@pytest.mark.parametrize("framework", ["torch", "cupy"])
def test_every_kernel_is_right_and_timed(framework, monkeypatch):
    pytest.importorskip(framework)
    wanted = {"torch": cuda_tensors.TorchTensors, "cupy": cuda_tensors.CupyTensors}[framework]
    if framework == "cupy":
        monkeypatch.setitem(sys.modules, "torch", None)
    assert isinstance(cuda_tensors.find(0), wanted)
    result = conv.convolutions(("fa2017", "sp2018"), "gpu", batch=200, repeat=4)
    assert result.wrong == [] and len(result.layers) == 3
    assert ("cudnn" in result.not_compared) == (framework == "cupy")
    for layer in result.layers:
        for row in layer.rows:
            assert row.status == "skipped" or row.median_ms > 0


@pytest.mark.parametrize("framework", ["torch", "cupy"])
def test_whole_networks_are_right_and_timed(framework, monkeypatch):
    pytest.importorskip(framework)
    if _mxnet.build() is None:
        pytest.skip("MXNet, which builds the networks, is not installed")
    if framework == "cupy":
        monkeypatch.setitem(sys.modules, "torch", None)
    result = net.networks(("fa2017", "fa2019"), "gpu", "torch", (1, 300), 4)
    assert result.wrong == [] and len(result.cases) == 10
    assert ("torch" in result.not_compared) == (framework == "cupy")
    for case in result.cases:
        assert case.rows[0].name == "fashion-infer"
        assert case.peers == (["torch fp32", "torch tf32"] if framework == "torch" else [])
        assert all(row.median_ms > 0 for row in case.rows)
