"""What the tests of many images share: without PyArrow (Python before 3.10) there is nothing to test."""

import importlib.util

import pytest

collect_ignore_glob = [] if importlib.util.find_spec("pyarrow") else ["test_*.py"]


@pytest.fixture(scope="session")
def images():
    """(n,1,28,28) uint8 of the built-in set, and labels."""
    from fashion_infer.data import synthetic

    return synthetic.draw(0, 700)


@pytest.fixture(scope="session")
def one_process(images):
    """What one process says of them, through the whole pipeline: a `Result`."""
    from fashion_infer import pipeline
    from fashion_infer.data import dataset
    from fashion_infer.request import Request

    return pipeline.run(Request("ece408-high", backend="cpu"), dataset.Images(*images, "synthetic", "built in"))
