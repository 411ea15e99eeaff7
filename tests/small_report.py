"""One small report a session for all tests that read one, and PyTorch for tests of how it is called."""

import importlib
import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest


@pytest.fixture(scope="session")
def small_report(tmp_path_factory):
    """A report on 300 synthetic images, its benchmarks on three: `.folder`, `.measured`, `.steps` it told of."""
    from fashion_infer import verification
    from fashion_infer.report import gather, make
    from fashion_infer.report.request import Request

    folder, steps = tmp_path_factory.mktemp("reports") / "report", []
    one = verification.Check("ece408-high", "shipped", "fused", "custom", "cpu", "synthetic", 2000, 0.903, 0.903)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gather, "_QUICK_BATCH", {"cpu": 3})
        patch.setattr(gather, "_QUICK_BATCHES", {"cpu": (1, 3)})
        patch.setattr(verification, "verify", lambda *arguments: [one])  # tests/pipeline has the real one
        request = Request("cpu", None, 300, "synthetic", None, 0, True)
        page, measured = make.make(str(folder), request, steps.append)
    assert page == folder / "index.html"
    return SimpleNamespace(folder=folder, page=page, measured=measured, steps=steps)


@pytest.fixture
def torch(monkeypatch):
    """PyTorch; where it is not installed, NumPy under its name (fakes/torch)."""
    if importlib.util.find_spec("torch") is not None:
        return importlib.import_module("torch")
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "unit" / "fakes"))
    importlib.import_module("torch")
    monkeypatch.setitem(sys.modules, "torch", sys.modules.pop("torch"))  # undone: the next test finds no PyTorch
    return sys.modules["torch"]
