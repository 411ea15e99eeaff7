"""GPU tests: left out where the library sees no CUDA device, skipped where PyTorch (their other party) has none."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import library

# One skipped test says that the others were left out, not hundreds.
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
