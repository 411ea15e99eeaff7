"""CPU kernels and fused networks do not read or write beyond a tensor, which ends at a protected page."""

import ctypes
import mmap

import bounds
import chains
import numpy as np
import profiles
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from fashion_infer.graph.layers import Convolution, Dense, MaxPool
from fashion_infer.library import kernels

KERNELS = [kernel.name for kernel in kernels.table("cpu")]
LIBC = ctypes.CDLL(None, use_errno=True)


class Guarded:
    """Memory that ends at a page on which every access fails."""

    def __init__(self):
        self._size = 1 << 20
        self._memory = mmap.mmap(-1, self._size + mmap.PAGESIZE)
        guard = ctypes.addressof(ctypes.c_char.from_buffer(self._memory)) + self._size
        assert LIBC.mprotect(ctypes.c_void_p(guard), mmap.PAGESIZE, 0) == 0  # PROT_NONE

    def holding(self, array):
        """Copy an array to the end of the memory and return the copy. Discard the example if the array is too large."""
        assume(array.nbytes <= self._size)
        begin = self._size - array.nbytes
        view = np.frombuffer(self._memory, array.dtype, array.size, begin).reshape(array.shape)
        view[:] = array
        return view


@pytest.fixture(scope="module")
def memory():
    return [Guarded() for _ in range(3)]


@given(
    st.tuples(*(st.integers(1, most) for most in (4, 20, 40))),
    st.integers(1, 11),
    st.tuples(st.integers(0, 12), st.integers(0, 20)),
    st.sampled_from(KERNELS),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
@example((2, 1, 1), 1, (0, 2), "direct", False, 0)  # an image smaller than a vector
@example((3, 16, 32), 11, (2, 14), "direct", False, 0)  # the last vector of each row is partial
@example((2, 3, 40), 3, (5, 17), "broadcast", False, 0)  # two tiles per row, two blocks of filters
@settings(max_examples=profiles.examples(100))
def test_kernels(memory, sizes, k, beyond, kernel, pixels, seed):
    (n, c, m), (h, w) = sizes, (k + more for more in beyond)
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 256, (n, c, h, w)).astype(np.uint8 if pixels else np.float32)
    weight = rng.standard_normal((m, c, k, k)).astype(np.float32)
    out = np.full((n, m, h - k + 1, w - k + 1), np.nan, np.float32)
    x, weight, out = (where.holding(array) for where, array in zip(memory, (x, weight, out)))
    y = kernels.convolve(x, weight, kernel, out=out)
    assert bounds.excess(y, bounds.forward([Convolution(m, k)], [weight], x)) <= 1


@given(chains.chains(), st.integers(1, 40), st.sampled_from(["uint8", "normal"]), st.integers(0, 2**32 - 1))
@example(chains.Chain([MaxPool(3, 1), Dense(2)], (1, 5, 7)), 1, "normal", 0)  # rows shorter than a vector
@settings(max_examples=profiles.examples(40))
def test_fused_networks(memory, chain, n, kind, seed):
    network = chain.fused(chain.weights(seed, kind == "uint8"))
    x = chain.items(n, kind, seed)
    wanted = network.forward(x)
    out = memory[1].holding(np.full_like(wanted, np.nan))
    np.testing.assert_array_equal(network.forward(memory[0].holding(x), out=out), wanted)
