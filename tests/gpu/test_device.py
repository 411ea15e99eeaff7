"""Reports whether the tests of this folder run at all."""

import library
import pytest


def test_there_is_a_device():
    if library.device_count() == 0:
        pytest.skip("no CUDA device: the other tests of tests/gpu were left out")
