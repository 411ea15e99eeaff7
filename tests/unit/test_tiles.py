"""The kernel `tiles`: AMX and its emulation give the same bits; images that it cannot split; the choice of `auto`."""

import hashlib

import numpy as np
import profiles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fashion_infer.library import kernels

SHAPES = [(2, 16, 20, 33, 3), (1, 5, 9, 3, 1), (3, 37, 12, 16, 5), (1, 40, 23, 20, 7), (2, 3, 40, 18, 2)]  # b c h m k


def digest():
    """Return a digest of the outputs of `tiles` for SHAPES, with values of magnitudes from 1e-6 to 1e6."""
    rng, found = np.random.default_rng(5), hashlib.sha256()
    for b, c, side, m, k in SHAPES:
        x = rng.standard_normal((b, c, side, side + 5)) * 10.0 ** rng.integers(-6, 7, (b, 1, 1, 1))
        weight = rng.standard_normal((m, c, k, k))
        found.update(kernels.convolve(x, weight, "tiles").tobytes())
        found.update(kernels.convolve(rng.integers(0, 256, x.shape, np.uint8), weight, "tiles").tobytes())
    return found.hexdigest()


@pytest.mark.parametrize("environment", [{"FASHION_OPS_AMX": "off"}, {"FASHION_OPS_ISA": "avx2"}])
def test_emulation_gives_the_same_bits(environment, run_python):
    """A separate process, because the library chooses only once. Without AMX, both sides are emulated."""
    program = "import sys; sys.path.insert(0, 'tests/unit'); import test_tiles; print(test_tiles.digest())"
    done = run_python(program, **environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == digest()


@pytest.mark.parametrize("value", [1e-30, 1e30, 1e-45, np.inf, -np.inf, np.nan])
def test_an_image_that_cannot_be_split_is_computed_by_shifted(value):
    """If a weight cannot be split, `shifted` computes all images."""
    rng = np.random.default_rng()
    x = rng.standard_normal((3, 20, 11, 13)).astype(np.float32)
    weight = rng.standard_normal((17, 20, 3, 3)).astype(np.float32)
    usual = kernels.convolve(x, weight, "tiles")
    x[1, 7, 5, 6] = value
    y = kernels.convolve(x, weight, "tiles")
    np.testing.assert_array_equal(y[[0, 2]], usual[[0, 2]])
    np.testing.assert_array_equal(y[1], kernels.convolve(x[1:2], weight, "shifted")[0])
    weight[3, 2, 1, 1] = value
    np.testing.assert_array_equal(kernels.convolve(x, weight, "tiles"), kernels.convolve(x, weight, "shifted"))


@given(*[st.integers(1, 128)] * 2, st.integers(1, 120), st.integers(1, 7), st.integers(2, 10_000))
@settings(max_examples=profiles.examples(100))
def test_auto_does_not_depend_on_the_batch(c, m, side, k, batch):
    """The exceptions are `direct` and `broadcast`, which give the same bits (test_steady.py)."""
    k = min(k, side)
    one, many = (kernels.chosen_kernel((b, c, side, side), (m, c, k, k)) for b in (1, batch))
    assert one == many or {one, many} == {"direct", "broadcast"}
