"""Fixtures for the tests of `run` and `predict` over many images, which need PyArrow (Python 3.10 or newer)."""

import importlib.util

import pytest

collect_ignore_glob = [] if importlib.util.find_spec("pyarrow") else ["test_*.py"]


@pytest.fixture(scope="session")
def images():
    """700 images of the built-in set, (n,1,28,28) uint8, and their labels."""
    from fashion_infer.data import synthetic

    return synthetic.draw(0, 700)


@pytest.fixture(scope="session")
def one_process(images):
    """The `Result` of `pipeline.run` for those images, in this process."""
    from fashion_infer import pipeline
    from fashion_infer.data import dataset
    from fashion_infer.request import Request

    return pipeline.run(Request("ece408-high", backend="cpu"), dataset.Images(*images, "synthetic", "built in"))
