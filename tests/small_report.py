"""Fixtures: one small report per test run for all tests that read a report; PyTorch."""

import fcntl
import os
import pickle
from types import SimpleNamespace

import pytest


@pytest.fixture(scope="session")
def small_report(tmp_path_factory):
    """A report on 300 synthetic images, with benchmarks on three images.

    Its attributes are `folder`, `page`, `measured` and `steps`, the calls of the progress function. All processes of a
    test run share the report: the first process creates it, and the others wait for it.
    """
    base = tmp_path_factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    kept = base / "small-report.pickle"
    with open(base / "small-report.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # closing the file releases the lock
        if not kept.exists():
            found = made(base / "small-report")
            kept.write_bytes(pickle.dumps(found))
        folder, measured, steps = pickle.loads(kept.read_bytes())
    return SimpleNamespace(folder=folder, page=folder / "index.html", measured=measured, steps=steps)


def made(folder, **options):
    """Make the report in a folder; return the folder, what was measured, and the calls of the progress function."""
    from fashion_infer import verification
    from fashion_infer.report import gather
    from fashion_infer.report.folder import make

    steps = []
    one = verification.Check("ece408-high", "shipped", "fused", "custom", "cpu", "synthetic", 2000, 0.903, 0.903)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gather, "_QUICK_BATCH", {"cpu": 3})
        patch.setattr(gather, "_QUICK_BATCHES", {"cpu": (1, 3)})
        patch.setattr(verification, "verify", lambda *arguments: [one])  # tests/pipeline tests the real one
        request = gather.ReportRequest(backend="cpu", n=300, data="synthetic", quick=True, **options)
        page, measured = make(str(folder), request, lambda share, what: steps.append((share, what)))
    assert page == folder / "index.html"
    return folder, measured, steps


@pytest.fixture
def torch():
    return pytest.importorskip("torch")
