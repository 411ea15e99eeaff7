"""Reports by a skip that the tests of this folder were left out."""

import library
import pytest


def test_there_is_a_device():
    if library.device_count() == 0:
        pytest.skip("no CUDA device: the other tests of tests/gpu were left out")
