"""The benchmark's parts that need a device: tensors of PyTorch and of CuPy, and cuDNN as a peer."""

import os
import sys
from pathlib import Path

import pytest

from fashion_infer import operators
from fashion_infer.bench import conv, cuda_tensors
from fashion_infer.errors import DeviceError


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
