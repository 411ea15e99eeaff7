"""GPU tests are not collected if the library finds no CUDA device, and skipped if PyTorch, their oracle, finds none."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import library

# Without a device, only test_device.py is collected, whose single skip reports that the GPU tests were left out.
collect_ignore = (
    []
    if library.device_count() > 0
    else [path.name for path in Path(__file__).parent.glob("test_*.py") if path.name != "test_device.py"]
)


def pytest_configure(config):
    config.addinivalue_line("markers", "alone: measures times or free device memory; no other test may run meanwhile")


@pytest.fixture(scope="session")
def torch():
    module = pytest.importorskip("torch")
    if not module.cuda.is_available():
        pytest.skip("PyTorch has no CUDA device here")
    return module
