"""On a GPU, an image's result has the same bits whatever else is computed with it (docs/fused.md).

It does not depend on the other images of its batch, on slices or on CUDA graphs, and it is the same for images in host
memory and device memory.
"""

import chains
import inputs
import library
import numpy as np
import profiles
import pytest
import reference
from torch_chains import on_device

from fashion_infer.graph.layers import Dense, Softmax

hypothesis = pytest.importorskip("hypothesis")
st = hypothesis.strategies

pytestmark = pytest.mark.gpu
NAMES = [name for name, _ in library.kernels()] or ["none"]
SEED = st.integers(0, 2**32 - 1)
CHAINS = chains.large()


def check_network(torch, chain, n, kind, seed):
    rng = np.random.default_rng(seed)
    network = chain.fused(chain.weights(seed, kind != "normal"), backend="gpu")
    x = chain.items(n, kind, seed)
    whole, tensor = network.forward(x), torch.as_tensor(x).cuda()
    for part in [slice(None), *inputs.parts(rng, n)]:
        for _ in range(3):  # from the second pass on, a CUDA graph runs
            np.testing.assert_array_equal(network.forward(x[part]), whole[part])
        np.testing.assert_array_equal(on_device(torch, network, tensor[part]).cpu().numpy(), whole[part])


def test_random_networks(torch):
    @profiles.on_device(60)
    @hypothesis.given(CHAINS, st.integers(1, 300), st.sampled_from(["uint8", "pixels", "normal"]), SEED)
    @hypothesis.example(chains.Chain([Dense(7)], (1, 38, 48)), 255, "normal", 0)
    def check(chain, n, kind, seed):
        check_network(torch, chain, n, kind, seed)

    check()


@pytest.mark.parametrize("kind", ["uint8", "normal"])
@pytest.mark.parametrize("name", chains.COURSE)
def test_course_networks(torch, name, kind):
    check_network(torch, chains.course(name), 301, kind, 1)


@pytest.mark.parametrize("values", [8, 140, 256, 260, 500, 1500])
def test_few_units(torch, values):
    """A dense layer of ten units gives an item the same bits in any batch.

    From 1,025 items on, each loaded weight is used for two items. With few inputs, half a warp computes an item.
    """
    check_network(torch, chains.Chain([Dense(10), Softmax()], (values,)), 1300, "normal", values)


@pytest.mark.parametrize("slice_", [1, 7, 64])
def test_slices(torch, monkeypatch, slice_):
    chain = chains.course("fa2017")
    weights, x = chain.weights(pixels=True), chain.items(200)
    whole = chain.fused(weights, backend="gpu").forward(x)
    monkeypatch.setenv("FASHION_OPS_SLICE", str(slice_))
    np.testing.assert_array_equal(chain.fused(weights, backend="gpu").forward(x), whole)


@pytest.mark.parametrize("name", NAMES)
def test_kernels(name):
    @profiles.on_device(40)
    @hypothesis.given(
        st.integers(1, 60),
        st.integers(1, 9),
        st.integers(1, 60),
        st.integers(1, 40),
        st.integers(1, 7),
        st.sampled_from(sorted(inputs.KINDS)),
        SEED,
    )
    def check(n, channels, side, filters, k, kind, seed):
        rng, k = np.random.default_rng(seed), min(k, side)
        x = inputs.draw(kind, rng, (n, channels, side, side + 3))
        weight = inputs.draw("normal", rng, (filters, channels, k, k))
        if not library.takes(name, library.conv_of(x, weight)):
            return
        status, whole = library.on_device(name, x, weight)
        assert status == library.OK, library.message()
        for part in inputs.parts(rng, n):
            some = np.ascontiguousarray(x[part])
            if library.takes(name, library.conv_of(some, weight)):
                np.testing.assert_array_equal(library.on_device(name, some, weight)[1], whole[part])

    check()


@pytest.mark.parametrize(
    "c, size, m, k",
    [(1, 28, 50, 5), (6, 30, 16, 5), (6, 36, 16, 5), (2, 24, 9, 5), (12, 33, 24, 5), (4, 40, 16, 7), (3, 60, 64, 7),
     (16, 20, 16, 3), (64, 14, 64, 3), (32, 14, 64, 1)],
)  # fmt: skip
def test_several_images_per_block(c, size, m, k):
    """A batch of 2,100 images, of which each block processes several, has the same bits as one of 100."""
    rng = np.random.default_rng(9)
    x = rng.uniform(-1, 1, (2100, c, size, size)).astype(np.float32)
    weight = rng.uniform(-1, 1, (m, c, k, k)).astype(np.float32)
    status, whole = library.on_device("tensor-core", x, weight)
    assert status == library.OK, library.message()
    for part in (slice(0, 100), slice(1000, 1100), slice(2000, 2100)):
        np.testing.assert_array_equal(library.on_device("tensor-core", x[part], weight)[1], whole[part])


# C, H, W, M, K of layers with one channel. In small batches several blocks share a band of an image. The layers differ
# in how outputs reach global memory (directly, or through shared memory by the copy engine or by threads) and in the
# bands: some end with an odd row, and the last band of an image may be shorter.
SHARED_BANDS = [
    (1, 56, 56, 4, 7),
    (1, 28, 28, 64, 7),
    (1, 28, 29, 6, 5),
    (1, 71, 70, 12, 5),
    (1, 64, 64, 6, 5),
    (1, 86, 86, 4, 7),
    (1, 25, 28, 3, 5),
    (1, 14, 12, 12, 5),
    (1, 32, 28, 3, 7),
    (1, 32, 28, 16, 7),
    (1, 30, 30, 27, 5),
]
# C, H, W, M, K of layers for any_shape.cu, which divides the work differently by batch size: into parts of the sums'
# depth or into strips, and into few or many columns.
CUT_BY_BATCH = [
    (128, 14, 14, 64, 7),
    (128, 28, 28, 32, 5),
    (64, 14, 15, 70, 5),
    (32, 20, 29, 33, 3),
    (19, 13, 22, 40, 11),
    (7, 28, 28, 64, 4),
]
# C, H, W, M, K of layers for streams.cu, which is used from 1,056 images on (528 for more than 64 filters). The layers
# have parts of the filters of different sizes, and rows whose length is not a power of two.
MANY = [(1, 28, 28, 33, 5), (1, 20, 28, 50, 5), (1, 32, 24, 64, 5), (1, 20, 16, 97, 5), (1, 36, 36, 128, 5)]
IMAGES = {
    "uint8": reference.pixels,
    "specials": lambda rng, shape: inputs.with_specials(rng.standard_normal(shape), rng, shape[0] // 3),
    **{kind: inputs.KINDS[kind] for kind in ("pixels", "activations", "wide")},
}
# Layer, number of all images, and batch sizes.
BATCHES = [(layer, 300, (1, 2, 3, 50)) for layer in SHARED_BANDS]
BATCHES += [(layer, 700, (1, 2, 50, 200)) for layer in CUT_BY_BATCH]
BATCHES += [(layer, 4300 if layer is MANY[0] else 1100, (1, 50, 1057)) for layer in MANY]


@pytest.mark.parametrize("kind", IMAGES)
@pytest.mark.parametrize("layer, total, counts", BATCHES)
@pytest.mark.parametrize("name", [name for name in NAMES if name in ("tensor-core", "tensor-core-half")] or ["none"])
def test_work_divided_by_batch_size(name, layer, total, counts, kind):
    """The outputs of the first and the last images, in a batch of each size in `counts`, have the same bits as in the
    whole batch.
    """
    (C, H, W, M, K), rng = layer, np.random.default_rng(1)
    x = np.asarray(IMAGES[kind](rng, (total, C, H, W)))
    x = x if kind == "uint8" else x.astype(np.float32)
    k = inputs.draw("normal", rng, (M, C, K, K))
    status, whole = library.on_device(name, x, k)
    assert status == library.OK, library.message()
    for n in counts:
        for first in (0, total - n):
            part = slice(first, first + n)
            np.testing.assert_array_equal(library.on_device(name, np.ascontiguousarray(x[part]), k)[1], whole[part])
