"""CUDA kernels with float32 precision, and fused networks on a GPU, keep the error bound of docs/precision.md."""

import bounds
import chains
import inputs
import library
import numpy as np
import profiles
import pytest

from fashion_infer.graph.layers import Convolution, Dense, Flatten, MaxPool, Tanh

hypothesis = pytest.importorskip("hypothesis")
st = hypothesis.strategies

pytestmark = pytest.mark.gpu
NAMES = [*[name for name, precision in library.kernels() if precision == "float32"], "auto"]
KIND = st.sampled_from(sorted(inputs.KINDS))
SEED = st.integers(0, 2**32 - 1)
LARGE = chains.large()


def check_kernel(name, x, weight):
    if not library.takes(name, library.conv_of(x, weight)):
        return
    status, y = library.on_device(name, x, weight)
    assert status == library.OK, library.message()
    wanted = bounds.forward([Convolution(len(weight), weight.shape[2])], [weight], x)
    assert bounds.excess(y, wanted) <= bounds.times(name, weight[0].size)


@st.composite
def shapes(draw):
    """Draw (C, H, W, M, K) with up to 3,200 products per output."""
    k = draw(st.sampled_from([1, 2, 3, 4, 5, 5, 6, 7, 7, 9, 11]))
    c = draw(st.integers(1, max(1, 3200 // k**2 if draw(st.booleans()) else 6)))
    h, w = (k + draw(st.integers(0, 30)) for _ in range(2))
    return c, h, w, draw(st.integers(1, 70)), k


@pytest.mark.parametrize("name", NAMES)
def test_any_shape(name):
    @profiles.on_device(60)
    @hypothesis.given(shapes(), KIND, KIND, st.booleans(), SEED)
    @hypothesis.example((58, 1, 1, 1, 1), "constant", "constant", False, 29)  # 58 equal terms in one sum
    @hypothesis.example((42, 2, 2, 12, 2), "constant", "positive", False, 0)  # 12 steps of wgmma in one sum
    @hypothesis.example((96, 2, 2, 3, 2), "constant", "constant", False, 1)  # two sums of 12 steps
    @hypothesis.example((31, 2, 2, 64, 2), "constant", "constant", False, 1)  # one sum of 8 steps
    def check(shape, kind, weights, specials, seed):
        c, h, w, m, k = shape
        rng = np.random.default_rng(seed)
        x, weight = inputs.draw(kind, rng, (2, c, h, w)), inputs.draw(weights, rng, (m, c, k, k)).astype(np.float32)
        check_kernel(name, inputs.with_specials(x, rng) if specials else x, weight)

    check()


def constants(rng, n, c, k, across=0):
    """Return n images or filters (n, c, height, width), each of which has the same value everywhere.

    A size is k, plus `across` columns and, if `across` is at most 4, as many rows.
    """
    size = (1, c, k + (across if across <= 4 else 0), k + across)
    return rng.uniform(0.5, 1.5, (n, 1, 1, 1)).astype(np.float32) * np.ones(size, np.float32)


def most_lossy(rng, n, size):
    """Return n images or filters of the given size, each of which has one value everywhere that loses much when it is
    split.

    A value is split into two fp16 values; the kernels omit the product of the two low parts. Values are from 1 to 2,
    more of them near 1. Each is the one of 1,000 neighbouring values with the largest sum of the remainder after the
    split and that product.
    """
    values = (1 + ((np.arange(n)[:, None] + rng.random((n, 1000))) / n) ** 3).astype(np.float32)
    low = values - values.astype(np.float16).astype(np.float64)
    left = low - (2048 * low).astype(np.float16) / 2048.0
    most = np.argmax((2 * left + low**2) / values, axis=1)
    return rng.permutation(values[np.arange(n), most])[:, None, None, None] * np.ones(size, np.float32)


@pytest.mark.parametrize("pixels", ["constant", "positive", "most_lossy"])
@pytest.mark.parametrize(
    "c, m, k, across",
    [(1, 50, 5, 15), (1, 12, 5, 31), (15, 40, 2, 9), (13, 40, 2, 9), (63, 64, 1, 0), (31, 64, 2, 0), (5, 24, 4, 0),
     (15, 32, 4, 0), (160, 40, 1, 0), (64, 64, 2, 0), (15, 64, 8, 0), (3, 64, 7, 0),
     (3, 64, 7, 32), (4, 64, 5, 32), (2, 64, 8, 32), (2, 64, 5, 32), (49, 64, 1, 0), (64, 64, 1, 0), (128, 64, 1, 0),
     (6, 16, 5, 4), (4, 9, 5, 4), (2, 12, 5, 4), (12, 24, 5, 4), (11, 24, 7, 4)],
)  # fmt: skip
def test_sums_of_equal_terms(c, m, k, across, pixels):
    """Sums of terms of one sign, which are equal or similar, keep the bound.

    Tensor cores round toward zero, so that their losses add up for terms of one sign. Which values lose most is left to
    chance, so the test has many images and filters, each with its own value.
    """
    rng = np.random.default_rng()
    x, weight = constants(rng, 1000, c, k, across), constants(rng, m, c, k)
    if pixels == "positive":
        x = (x * rng.uniform(0.9, 1.1, x.shape)).astype(np.float32)
    elif pixels == "most_lossy":
        x, weight = most_lossy(rng, 1000, x.shape[1:]), most_lossy(rng, m, weight.shape[1:])
    check_kernel("auto", x, weight)


@pytest.mark.parametrize(
    "c, m, k, across",
    [(1, 50, 5, 0), (4, 64, 4, 0), (15, 64, 2, 0), (31, 32, 2, 0), (12, 24, 5, 0), (64, 64, 3, 0), (3, 64, 7, 32),
     (4, 64, 5, 32), (64, 64, 1, 0), (128, 64, 1, 0)],
)  # fmt: skip
def test_inputs_constructed_against_the_bound(c, m, k, across):
    """For inputs constructed against the bound, errors are at most 3.5 times the bound (docs/precision.md)."""
    rng = np.random.default_rng()
    x = constants(rng, 1000, c, k, across) * (2.0 ** rng.integers(-12, 0, (1000, 1, 1, 1))).astype(np.float32)
    x[:, 0, 0, 0] = rng.uniform(0.5, 1.5, 1000)
    weight = constants(rng, m, c, k)
    status, y = library.on_device("auto", x, weight)
    assert status == library.OK, library.message()
    assert bounds.excess(y, bounds.forward([Convolution(m, k)], [weight], x)) <= 3.5


SPLIT_LAYERS = pytest.mark.parametrize(
    "c, size, m, k",
    [(12, 33, 24, 5), (12, 33, 24, 7), (4, 40, 16, 7), (6, 30, 16, 5), (3, 60, 64, 7), (8, 30, 8, 5), (64, 28, 64, 3)],
)


@pytest.mark.parametrize("n", [3, 140])
@SPLIT_LAYERS
def test_few_values_far_below_the_rest(c, size, m, k, n):
    """Values that are far below an image's other values keep their precision.

    The small values are among zeros, where conversion to fp16 with the image's scale would lose their bits. Rows of
    ordinary pixels are above them.
    """
    rng = np.random.default_rng(7)
    x = np.zeros((n, c, size, size), np.float32)
    x[:, :, :6] = rng.uniform(-1, 1, x[:, :, :6].shape)
    for image in x:
        rows, columns = 6 + rng.integers(size - 6, size=20), rng.integers(size, size=20)
        image[rng.integers(c, size=20), rows, columns] = rng.uniform(1e-11, 1e-9, 20)
    check_kernel("tensor-core", x, rng.uniform(-1, 1, (m, c, k, k)).astype(np.float32))


@SPLIT_LAYERS
def test_images_of_different_magnitudes(c, size, m, k):
    """Images whose values have very different magnitudes keep the bound.

    A task has several neighbouring images, and each image has its own scale.
    """
    rng = np.random.default_rng()
    x = rng.uniform(-1, 1, (40, c, size, size)) * 10 ** rng.uniform(-12, 12, (40, 1, 1, 1))
    check_kernel("tensor-core", x.astype(np.float32), rng.uniform(-1, 1, (m, c, k, k)).astype(np.float32))


@pytest.mark.parametrize("size_of_values", [1e20, 1e22, 1e26, 1e38])
@SPLIT_LAYERS
def test_zeros_beside_products_that_overflow(c, size, m, k, size_of_values):
    """Outputs that are sums of zeros are zero, although other outputs overflow.

    The product of the inverses of both scales may exceed the range of float32.
    """
    rng = np.random.default_rng(8)
    x = np.zeros((3, c, size, size), np.float32)
    x[:, :, :6] = size_of_values * rng.uniform(0.5, 1, x[:, :, :6].shape)
    check_kernel("tensor-core", x, (size_of_values * rng.uniform(0.5, 1, (m, c, k, k))).astype(np.float32))


@pytest.mark.parametrize("layer", library.COURSE_LAYERS)
@pytest.mark.parametrize("name", NAMES)
def test_course_layers(name, layer):
    c, h, w, m, k = library.COURSE_LAYERS[layer]
    for kind in profiles.drawn(sorted(inputs.KINDS), 4):
        rng = np.random.default_rng()
        x, weight = inputs.draw(kind, rng, (5, c, h, w)), inputs.draw("normal", rng, (m, c, k, k))
        check_kernel(name, x, weight)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["constant", "positive"])
def test_long_sums(name, kind):
    """Sums of 6,272 terms of one sign keep the bound."""
    rng = np.random.default_rng()
    check_kernel(name, inputs.draw(kind, rng, (1, 128, 9, 15)), inputs.draw(kind, rng, (7, 128, 7, 7)))


def check_network(chain, weights, x):
    y = chain.fused(weights, backend="gpu").forward(x)
    assert bounds.excess(y, bounds.forward(chain.layers, weights, x)) <= 1


def test_dense():
    @profiles.on_device(60)
    @hypothesis.given(
        st.integers(1, 8000),
        st.sampled_from([1, 7, 10, 64, 130, 500]),
        st.sampled_from([1, 9, 200]),
        KIND,
        KIND,
        st.booleans(),
        st.booleans(),
        SEED,
    )
    def check(values, units, n, kind, weights, bias, specials, seed):
        rng = np.random.default_rng(seed)
        chain = chains.Chain([Dense(units, bias)], (values,))
        arrays = {"fullyconnected0_weight": inputs.draw(weights, rng, (units, values)).astype(np.float32)}
        if bias:
            arrays["fullyconnected0_bias"] = inputs.draw(weights, rng, (units,)).astype(np.float32)
        x = inputs.draw(kind, rng, (n, values)).astype(np.float32)
        check_network(chain, arrays, inputs.with_specials(x, rng) if specials else x)

    check()


@pytest.mark.parametrize("kind", ["constant", "positive", "wide"])
@pytest.mark.parametrize("values", [7, 132, 256, 260, 500, 1500])
def test_few_units(values, kind):
    """A last dense layer of ten units keeps the bound for 1,100 items."""
    rng = np.random.default_rng()
    weight = inputs.draw(kind, rng, (10, values)).astype(np.float32)
    x = inputs.draw(kind, rng, (1100, values)).astype(np.float32)
    check_network(chains.Chain([Dense(10, bias=False)], (values,)), {"fullyconnected0_weight": weight}, x)


def test_random_networks():
    @profiles.on_device(150)
    @hypothesis.given(LARGE, st.integers(1, 40), KIND, st.booleans(), SEED)
    def check(chain, n, kind, specials, seed):
        rng = np.random.default_rng(seed)
        x = inputs.draw(kind, rng, (n, *chain.shape))
        check_network(chain, chain.weights(seed, kind == "pixels"), inputs.with_specials(x, rng) if specials else x)

    check()


@pytest.mark.parametrize("kind", sorted(inputs.KINDS))
@pytest.mark.parametrize("name", chains.COURSE)
def test_course_networks(name, kind):
    """The course's networks keep the bound.

    Only some of them have a tanh before their first dense layer; in the others, its inputs are not limited to -1 to 1.
    """
    chain, rng = chains.course(name), np.random.default_rng()
    x = inputs.draw(kind, rng, (20, *chain.shape))
    check_network(chain, chain.weights(pixels=kind == "pixels"), x)


@pytest.mark.parametrize("filters", [4, 9, 16, 24, 30, 50])
def test_images_with_values_of_another_magnitude(filters):
    """An image with three values of a different magnitude keeps the bound.

    The stages that split values into fp16 parts scale whole bands of an image, so one outlier could cost the others
    precision.
    """
    rng = np.random.default_rng()
    chain = chains.Chain([Convolution(filters, 5), Tanh(), MaxPool(), Flatten(), Dense(33)], (1, 28, 28))
    for size in (1e-30, 1e-12, 1e-5, 1e5, 1e12, 1e30):
        x = inputs.draw("activations", rng, (9, 1, 28, 28))
        x.reshape(9, -1)[:, rng.integers(0, 784, 3)] *= np.float32(size)
        check_network(chain, chain.weights(), x)
