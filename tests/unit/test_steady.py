"""An image's result has the same bits for any other images in its batch and any number of threads (docs/fused.md)."""

import chains
import inputs
import numpy as np
import profiles
import pytest
import reference
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fashion_infer.graph.layers import Dense, Relu, Tanh
from fashion_infer.library import bindings, kernels

THREADS = st.integers(1, 16)
SEED = st.integers(0, 2**32 - 1)


@pytest.fixture(autouse=True)
def default_threads():
    yield
    bindings.set_threads(None)


def check(run, x, rng, threads, fewer):
    """Check that run() on parts of x with `fewer` threads gives the same bits as on all of x with `threads` threads."""
    bindings.set_threads(threads)
    whole = run(x)
    bindings.set_threads(fewer)
    for part in [slice(None), *inputs.parts(rng, len(x))]:
        np.testing.assert_array_equal(run(x[part]), whole[part])


@given(chains.chains(), st.integers(1, 300), THREADS, THREADS, SEED)
@example(chains.Chain([Dense(7)], (1, 38, 48)), 255, 2, 16, 0)
@example(chains.Chain([Dense(7)], (1, 38, 48)), 255, 16, 1, 0)
@example(chains.Chain([Dense(500), Tanh(), Dense(10), Relu()], (7200,)), 33, 16, 3, 0)
@settings(max_examples=profiles.examples(60))
def test_fused_networks(chain, n, threads, fewer, seed):
    rng = np.random.default_rng(seed)
    kind = ["uint8", "pixels", "normal"][rng.integers(3)]
    network = chain.fused(chain.weights(seed, kind != "normal"))
    check(network.forward, chain.items(n, kind, seed), rng, threads, fewer)


@given(st.integers(1, 30), st.integers(1, 9), st.integers(1, 70), st.integers(1, 30), THREADS, THREADS, SEED)
@settings(max_examples=profiles.examples(15))  # each example takes a second
def test_kernels(n, channels, side, filters, threads, fewer, seed):
    rng = np.random.default_rng(seed)
    k = int(rng.integers(1, min(side, 7) + 1))
    x, weight = (inputs.draw("normal", rng, s) for s in ((n, channels, side, side + 3), (filters, channels, k, k)))
    for kernel in reference.own_kernels("cpu"):
        if kernel != "naive":  # naive uses one thread
            check(lambda part, name=kernel: kernels.convolve(part, weight, name), x, rng, threads, fewer)


@given(chains.many_channels(), st.integers(1, 6), THREADS, THREADS, SEED)
@settings(max_examples=profiles.examples(6))
def test_many_channels(shape, n, threads, fewer, seed):
    c, h, w, m, k = shape
    rng = np.random.default_rng(seed)
    x, weight = inputs.draw("normal", rng, (n, c, h, w)), inputs.draw("normal", rng, (m, c, k, k))
    check(lambda part: kernels.convolve(part, weight, "direct"), x, rng, threads, fewer)


@given(st.integers(1, 40), st.integers(1, 40), st.sampled_from([4, 31, 32, 64, 90]), st.integers(1, 7), SEED)
@example(24, 14, 32, 3, 0)  # with AVX-512, one image runs `direct`, and many run `broadcast`
@example(3, 14, 64, 7, 0)
@settings(max_examples=profiles.examples(20))
def test_auto_picks_kernels_with_the_same_bits(channels, side, filters, k, seed):
    rng = np.random.default_rng(seed)
    kind = ["pixels", "normal"][rng.integers(2)]
    h, w = side + k - 1, side + k - 1 + int(rng.integers(4))
    x, weight = inputs.draw(kind, rng, (2, channels, h, w)), inputs.draw("normal", rng, (filters, channels, k, k))
    batches = (1, 2, 4, 10, 40, 1000)
    names = {kernels.chosen_kernel((n, channels, h, w), weight.shape) for n in batches}
    first, *others = (kernels.convolve(x, weight, name) for name in sorted(names))
    for other in others:
        np.testing.assert_array_equal(first, other)
