"""GPU tests: left out if the library finds no CUDA device; skipped if PyTorch, with which they compare, finds none."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import library

# A single skipped test says that the GPU tests were left out, instead of hundreds of skipped tests.
collect_ignore = (
    []
    if library.device_count() > 0
    else [path.name for path in Path(__file__).parent.glob("test_*.py") if path.name != "test_device.py"]
)


@pytest.fixture(scope="session")
def torch():
    module = pytest.importorskip("torch")
    if not module.cuda.is_available():
        pytest.skip("PyTorch has no CUDA device here")
    return module
