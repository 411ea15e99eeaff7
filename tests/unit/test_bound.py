"""CPU kernels and fused networks keep the error bound of docs/precision.md on inputs of several kinds."""

import bounds
import chains
import inputs
import numpy as np
import profiles
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fashion_infer.graph.layers import Convolution, Dense, MaxPool, Tanh
from fashion_infer.library import kernels

KERNELS = [kernel.name for kernel in kernels.table("cpu")]
KIND = st.sampled_from(sorted(inputs.KINDS))
SEED = st.integers(0, 2**32 - 1)
WORST = 3.5  # equals kWorst of base/summation.h


def check(y, wanted):
    assert bounds.excess(y, wanted) <= 1


def convolution(x, weight):
    return bounds.forward([Convolution(len(weight), weight.shape[2])], [weight], x)


@st.composite
def shapes(draw):
    """Draw (C, H, W, M, K) with up to 2,000 products per output."""
    k = draw(st.integers(1, 11))
    c = draw(st.integers(1, max(1, 2000 // k**2 if draw(st.booleans()) else 4)))
    h, w = (k + draw(st.integers(0, 12)) for _ in range(2))
    return c, h, w, draw(st.integers(1, 9)), k


@given(shapes(), st.sampled_from(KERNELS), KIND, KIND, SEED)
@example((1, 28, 28, 9, 5), "shifted", "constant", "constant", 0)
@example((12, 33, 33, 9, 7), "shifted", "constant", "constant", 0)
@example((20, 18, 33, 40, 5), "broadcast", "constant", "constant", 0)
@settings(max_examples=profiles.examples(100))
def test_kernels_on_random_shapes(shape, kernel, kind, weights, seed):
    c, h, w, m, k = shape
    rng = np.random.default_rng(seed)
    x, weight = inputs.draw(kind, rng, (2, c, h, w)), inputs.draw(weights, rng, (m, c, k, k)).astype(np.float32)
    check(kernels.convolve(x, weight, kernel), convolution(x, weight))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("kind", ["constant", "positive"])
def test_long_sums(kernel, kind):
    """Sums of 6,272 terms of one sign keep the bound, which adding float32 values one after another would exceed."""
    rng = np.random.default_rng()
    x, weight = inputs.draw(kind, rng, (1, 128, 9, 15)), inputs.draw(kind, rng, (7, 128, 7, 7))
    check(kernels.convolve(x, weight, kernel), convolution(x, weight))


@given(chains.many_channels(), KIND, KIND, SEED)
@example((128, 28, 28, 32, 7), "positive", "constant", 0)
@settings(max_examples=profiles.examples(8))
def test_many_channels(shape, kind, weights, seed):
    c, h, w, m, k = shape
    rng = np.random.default_rng(seed)
    x, weight = inputs.draw(kind, rng, (1, c, h, w)), inputs.draw(weights, rng, (m, c, k, k)).astype(np.float32)
    check(kernels.convolve(x, weight, "direct"), convolution(x, weight))
    x, weight = inputs.draw("constant", rng, (1, c, h, w)), inputs.spike(rng, (m, c, k, k))
    assert bounds.excess(kernels.convolve(x, weight, "direct"), convolution(x, weight)) <= WORST


@given(shapes(), st.sampled_from(KERNELS), SEED)
@settings(max_examples=profiles.examples(30))
def test_inputs_constructed_against_the_bound(shape, kernel, seed):
    c, h, w, m, k = shape
    rng = np.random.default_rng(seed)
    x, weight = inputs.draw("constant", rng, (1, c, h, w)), inputs.spike(rng, (m, c, k, k))
    wanted = convolution(x, weight)
    assert bounds.excess(kernels.convolve(x, weight, kernel), wanted) <= (1 if kernel == "naive" else WORST)
    chain = chains.Chain([Dense(m, bias=False)], (c * k * k,))
    x, weight = x.reshape(1, -1)[:, : c * k * k], weight.reshape(m, -1)
    y = chain.fused({"fullyconnected0_weight": weight}).forward(x)
    assert bounds.excess(y, bounds.forward(chain.layers, [weight], x)) <= WORST


@pytest.mark.parametrize("kernel", ["direct", "shifted", "broadcast"])
@pytest.mark.parametrize("channels, side, share", [(1, 5, 8e-5), (33, 1, 18e-5), (3, 5, 1e-5)])
def test_sums_with_a_large_first_term(channels, side, share, kernel):
    """Their fraction is not zero, and at most 2.5 times the one in docs/precision.md."""
    rng = np.random.default_rng()
    over = count = 0
    while count < 2_000_000:
        weight = rng.normal(0, 1e-3, (32, channels, side, side)).astype(np.float32)
        weight[:, 0, 0, 0] = 1
        x = rng.standard_normal((2, channels, 47 + side, 47 + side), np.float32)
        wanted = convolution(x, weight)
        excess = np.abs(kernels.convolve(x, weight, kernel) - wanted.value) / wanted.error
        assert excess.max() <= WORST
        over, count = over + np.count_nonzero(excess > 1), count + excess.size
    assert 0 < over / count < 2.5 * share


@given(shapes(), st.sampled_from(KERNELS), st.sampled_from(["normal", "mostly zero", "half wide"]), SEED)
@settings(max_examples=profiles.examples(30))
def test_infinities_and_nan(shape, kernel, kind, seed):
    c, h, w, m, k = shape
    rng = np.random.default_rng(seed)
    x, weight = inputs.draw(kind, rng, (2, c, h, w)), inputs.draw(kind, rng, (m, c, k, k))
    if rng.integers(3):
        x = inputs.with_specials(x, rng)
    else:
        weight = inputs.with_specials(weight, rng, 1)
    check(kernels.convolve(x, weight, kernel), convolution(x, weight))


@given(st.integers(1, 8000), st.integers(1, 70), st.integers(1, 9), KIND, KIND, st.booleans(), SEED)
@example(7200, 500, 5, "positive", "constant", True, 0)
@example(7200, 64, 5, "constant", "constant", True, 0)
@settings(max_examples=profiles.examples(60))
def test_dense(values, units, n, kind, weights, bias, seed):
    rng = np.random.default_rng(seed)
    x, weight = inputs.draw(kind, rng, (n, values)).astype(np.float32), inputs.draw(weights, rng, (units, values))
    chain = chains.Chain([Dense(units, bias)], (values,))
    arrays = {"weight": weight.astype(np.float32)}
    if bias:
        arrays["bias"] = inputs.draw(weights, rng, (units,)).astype(np.float32)
    if not rng.integers(4):
        x = inputs.with_specials(x, rng)
    network = chain.fused({f"fullyconnected0_{name}": array for name, array in arrays.items()})
    check(network.forward(x), bounds.forward(chain.layers, list(arrays.values()), x))


@given(chains.chains(), st.integers(1, 9), KIND, st.booleans(), SEED)
@settings(max_examples=profiles.examples(100))
def test_fused_networks(chain, n, kind, specials, seed):
    rng = np.random.default_rng(seed)
    x = inputs.draw(kind, rng, (n, *chain.shape))
    x = inputs.with_specials(x, rng) if specials else x
    weights = chain.weights(seed, kind == "pixels")
    check(chain.fused(weights).forward(x), bounds.forward(chain.layers, weights, x))


@pytest.mark.parametrize("pool", [(2,), (2, 2, True), (3, 2)])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_pool_after_a_convolution_keeps_nan(value, pool):
    """MXNet's own pooling loses NaN."""
    chain = chains.Chain([Convolution(1, 1), MaxPool(*pool), Tanh()], (1, 9, 38))
    for row in (3, 4):
        x = np.repeat(-chain.items(1, "pixels"), 38, axis=0)
        x[np.arange(38), 0, row, np.arange(38)] = value
        weights = {"convolution0_weight": np.ones((1, 1, 1, 1), np.float32)}
        check(chain.fused(weights).forward(x), bounds.forward(chain.layers, weights, x))
