"""Every CUDA kernel on PyTorch's device tensors, compared with PyTorch's float64 convolution."""

import library
import profiles
import pytest

hypothesis = pytest.importorskip("hypothesis")
st = hypothesis.strategies

pytestmark = pytest.mark.gpu
NAMES = [name for name, _ in library.kernels()] or ["none"]
PRECISION = dict(library.kernels())
# The kernels that choose among the variants "tensor-core/NAME", each of which supports only some shapes.
TENSOR_CORE = [name for name in NAMES if name in ("tensor-core", "tensor-core-half")]


def forward(torch, name, x, k, y=None, stream=None):
    """Run one pass on `stream`, by default the current one; return the output, which is NaN before the pass."""
    conv = library.conv_of(x, k)
    if y is None:
        side = k.shape[2]
        y = x.new_full((x.shape[0], k.shape[0], x.shape[2] - side + 1, x.shape[3] - side + 1), 0, dtype=torch.float32)
    y.fill_(float("nan"))
    stream = torch.cuda.current_stream() if stream is None else stream
    status = library.load().fops_conv_forward_gpu(
        name.encode(), conv, x.data_ptr(), k.data_ptr(), y.data_ptr(), stream.cuda_stream
    )
    assert status == library.OK, library.message()
    return y


def error(torch, x, k, y):
    """Return the largest error as a fraction of the largest magnitude; infinity if y has NaN.

    The largest magnitude may be small because terms cancel. Therefore the divisor is at least the magnitude that a sum
    of terms with random signs would have.
    """
    with torch.backends.cudnn.flags(enabled=False):
        want = torch.nn.functional.conv2d(x.double(), k.double())
        terms = torch.nn.functional.conv2d(x.double().abs(), k.double().abs())
    largest = torch.maximum(want.abs().max(), terms.max() / k[0].numel() ** 0.5)
    return ((y.double() - want).abs().nan_to_num(nan=float("inf")).max() / largest).item()


def images(torch, shape, kind, seed=0):
    generator = torch.Generator("cuda").manual_seed(seed)
    if kind == "reals":
        return torch.rand(shape, generator=generator, device="cuda") * 2 - 1
    pixels = torch.randint(0, 256, shape, generator=generator, device="cuda")
    return pixels.to(torch.uint8 if kind == "uint8" else torch.float32)


def skip_unless_taken(name, x, k):
    """Skip the test if the kernel does not support this shape."""
    if not library.takes(name, library.conv_of(x, k)):
        pytest.skip(library.message())


def weights(torch, shape, seed=1):
    return torch.randn(shape, generator=torch.Generator("cuda").manual_seed(seed), device="cuda")


@pytest.mark.parametrize("kind", ["pixels", "reals", "uint8"])
@pytest.mark.parametrize("layer", library.COURSE_LAYERS)
@pytest.mark.parametrize("name", NAMES)
def test_course_layer(torch, name, layer, kind):
    C, H, W, M, K = library.COURSE_LAYERS[layer]
    x, k = images(torch, (257, C, H, W), kind), weights(torch, (M, C, K, K))
    skip_unless_taken(name, x, k)
    limit = library.TOLERANCE[PRECISION[name]]
    if layer == "fa2017" and PRECISION[name] == "float32":
        limit = 2e-6
    assert error(torch, x, k, forward(torch, name, x, k)) <= limit


@pytest.mark.parametrize("name", NAMES)
def test_random_shapes(torch, name):
    @profiles.on_device(60)
    @hypothesis.given(
        st.integers(1, 5),
        st.integers(1, 13),
        st.integers(1, 40),
        st.integers(1, 40),
        st.integers(1, 70),
        st.integers(1, 7),
        st.sampled_from(["pixels", "reals", "uint8"]),
        st.integers(0, 99),
        st.sampled_from([1.0, 1e-12, 1e12]),
        st.integers(0, 1),
    )
    def check(B, C, H, W, M, K, kind, seed, scale, offset):
        K = min(K, H, W)
        x, k = images(torch, (B + offset, C, H, W), kind, seed), weights(torch, (M, C, K, K), seed)
        if kind == "reals":
            x = x * scale
        x = x[offset:]  # a slice need not start at a 16-byte boundary
        if library.takes(name, library.conv_of(x, k)):
            assert error(torch, x, k, forward(torch, name, x, k)) <= 2 * library.TOLERANCE[PRECISION[name]]

    check()


# Layers that differ in few numbers: what shape_cache.h caches for one layer must not be used for another.
ALIKE = st.tuples(
    st.integers(1, 3),
    st.integers(16, 18),
    st.integers(9, 11),
    st.integers(9, 11),
    st.sampled_from([8, 9, 33, 34]),
    st.sampled_from([2, 3]),
    st.sampled_from(["pixels", "uint8"]),
)


@pytest.mark.parametrize("name", TENSOR_CORE or ["none"])
def test_similar_layers_in_random_order(torch, name):
    @profiles.on_device(10)
    @hypothesis.given(st.lists(ALIKE, min_size=40, max_size=60, unique=True), st.randoms(use_true_random=False))
    def check(layers, order):
        calls = [(images(torch, (B, C, H, W), kind), weights(torch, (M, C, K, K))) for B, C, H, W, M, K, kind in layers]
        first = [forward(torch, name, x, k) for x, k in calls]
        for (x, k), y in zip(calls, first):
            assert error(torch, x, k, y) <= 2 * library.TOLERANCE[PRECISION[name]]
        for i in order.sample(range(len(calls)), len(calls)):
            assert torch.equal(forward(torch, name, *calls[i]), first[i])

    check()


# Shapes with specialised kernels, which random shapes rarely have: C, height and width of the outputs, M, K.
FAMILIES = {
    "one-channel": (st.just(1), st.integers(1, 60), st.integers(2, 90), st.integers(1, 40), st.sampled_from([5, 7])),
    "few-filters": (st.integers(2, 6), st.integers(4, 68), st.integers(1, 68), st.integers(9, 16), st.just(5)),
    "pointwise": (st.integers(64, 128), st.integers(1, 60), st.integers(1, 60), st.integers(1, 300), st.just(1)),
    "few-channels": (
        st.integers(2, 4),
        st.integers(1, 40),
        st.integers(33, 240),
        st.integers(33, 128),
        st.integers(5, 8),
    ),
    "row-groups": (
        st.integers(11, 12),
        st.integers(1, 60),
        st.integers(1, 90),
        st.integers(17, 24),
        st.sampled_from([5, 7]),
    ),
    "walks": (st.just(4), st.integers(1, 60), st.integers(1, 90), st.integers(9, 16), st.just(7)),
    "any-shape": (st.integers(2, 70), st.integers(1, 20), st.integers(1, 30), st.integers(1, 140), st.integers(1, 7)),
}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", TENSOR_CORE or ["none"])
def test_random_shapes_of_families(torch, name, family):
    """Each family's kernels are correct for 1 to 500 images, and an image alone gives the same bits as in the batch.

    500 images are more tasks than the multiprocessors of the GPU run concurrently. Small batches use other kernels.
    """

    @profiles.on_device(60)
    @hypothesis.given(
        st.sampled_from([1, 2, 7, 500]),
        st.tuples(*FAMILIES[family]),
        st.sampled_from(["pixels", "reals"]),
        st.integers(0, 99),
        st.sampled_from([1.0, 1e-12, 1e12]),
        st.integers(0, 1),
    )
    def check(B, shape, kind, seed, scale, offset):
        C, OH, OW, M, K = shape
        x = images(torch, (B + offset, C, OH + K - 1, OW + K - 1), kind, seed)
        k = weights(torch, (M, C, K, K), seed)
        x[::3] *= scale  # images have different scales
        x = x[offset:]
        if library.takes(name, library.conv_of(x, k)):
            y = forward(torch, name, x, k)
            for image in {0, B // 2, B - 1}:
                part = slice(image, image + 1)
                assert error(torch, x[part], k, y[part]) <= 2 * library.TOLERANCE[PRECISION[name]]
                assert torch.equal(forward(torch, name, x[part], k), y[part])
            assert not y.isnan().any()

    check()


@pytest.mark.parametrize("name", NAMES)
def test_infinities_and_nan_stay_in_their_windows(torch, name):
    if PRECISION[name] != "float32":
        pytest.skip("fp16 overflows to infinity for other values")
    for C, M, W in ((1, 50, 28), (12, 24, 28), (6, 16, 28), (3, 64, 40)):
        x, k = images(torch, (3, C, 28, W), "reals"), weights(torch, (M, C, 5, 5))
        x[1, 0, 10, 10], x[2, C - 1, 20, 3] = float("inf"), float("nan")
        if not library.takes(name, library.conv_of(x, k)):
            continue
        y = forward(torch, name, x, k)
        assert not y[0].isnan().any() and not y[0].isinf().any()
        assert not y[1, :, :6].isinf().any() and y[1, :, 6:11, 6:11].isinf().all()
        assert y[2, :, 16:21, 0:4].isnan().all() and not y[2, :, :16].isnan().any()


@pytest.mark.parametrize("name", NAMES)
def test_changed_weights_are_used(torch, name):
    x, k = images(torch, (64, 1, 28, 28), "pixels"), weights(torch, (50, 1, 5, 5))
    skip_unless_taken(name, x, k)
    for seed in range(3):
        k.copy_(weights(torch, (50, 1, 5, 5), seed))
        assert error(torch, x, k, forward(torch, name, x, k)) <= library.TOLERANCE[PRECISION[name]]


@pytest.mark.parametrize("name", NAMES)
def test_two_streams_at_once(torch, name):
    streams = [torch.cuda.Stream() for _ in range(2)]
    x = images(torch, (500, 1, 28, 28), "pixels")
    ks = [weights(torch, (50, 1, 5, 5), seed) for seed in range(2)]
    ys = [torch.empty(500, 50, 24, 24, device="cuda") for _ in range(2)]
    skip_unless_taken(name, x, ks[0])
    torch.cuda.synchronize()
    for _ in range(5):
        for stream, k, y in zip(streams, ks, ys):
            with torch.cuda.stream(stream):
                forward(torch, name, x, k, y)
    torch.cuda.synchronize()
    for k, y in zip(ks, ys):
        assert error(torch, x, k, y) <= library.TOLERANCE[PRECISION[name]]


def test_a_stream_of_cupy(torch):
    cupy = pytest.importorskip("cupy")
    x = cupy.random.randint(0, 256, (100, 1, 28, 28)).astype(cupy.float32)
    k = cupy.random.standard_normal((50, 1, 5, 5)).astype(cupy.float32)
    y = cupy.full((100, 50, 24, 24), cupy.nan, cupy.float32)
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.Device().synchronize()
    conv = library.conv_of(x, k)
    status = library.load().fops_conv_forward_gpu(b"auto", conv, x.data.ptr, k.data.ptr, y.data.ptr, stream.ptr)
    assert status == library.OK, library.message()
    stream.synchronize()
    assert library.error(y.get(), library.reference(x.get(), k.get())) <= 2e-6


@pytest.mark.alone
@pytest.mark.parametrize("name", NAMES)
def test_no_device_memory_leaks(torch, name):
    x, k = images(torch, (20, 1, 28, 28), "pixels"), weights(torch, (50, 1, 5, 5))
    skip_unless_taken(name, x, k)
    y = forward(torch, name, x, k)
    torch.cuda.synchronize()
    before = torch.cuda.mem_get_info()[0]
    for _ in range(200):
        forward(torch, name, x, k, y)
    torch.cuda.synchronize()
    assert before - torch.cuda.mem_get_info()[0] <= 4 << 20


@pytest.mark.alone
def test_more_than_2_to_the_31_elements(torch):
    if torch.cuda.mem_get_info()[0] < 40 << 30:
        pytest.skip("needs 40 GB of free device memory")
    x, k = images(torch, (80_000, 1, 28, 28), "pixels"), weights(torch, (50, 1, 5, 5))
    y = torch.empty(80_000, 50, 24, 24, device="cuda")
    for name in ("auto", "implicit-gemm", "register-tile", "register-accumulate"):
        forward(torch, name, x, k, y)
        assert not y[:1].isnan().any() and not y[-2000:].isnan().any()
        assert error(torch, x[-100:], k, y[-100:]) <= 2e-6
        assert error(torch, x[40_000:40_100], k, y[40_000:40_100]) <= 2e-6


# ---- The blocks and shared memory of a launch are limited; every shape can be launched.


def check_launch(torch, shape):
    """Run one pass over zeros, and wait for it."""
    B, C, H, W, M, K = shape
    x, k = torch.zeros(B, C, H, W, device="cuda"), torch.zeros(M, C, K, K, device="cuda")
    forward(torch, "auto", x, k)
    torch.cuda.synchronize()


def test_dynamic_and_static_shared_memory_of_48_kb_together(torch):
    # On Hopper the dynamic part alone is exactly 48 KB, the most without an opt-in. With the static part it is more.
    check_launch(torch, (7, 2, 55, 7, 16, 5))


@pytest.mark.parametrize("C, M, K", [(1, 6, 5), (1, 50, 5), (2, 16, 5), (3, 9, 5), (6, 16, 5), (8, 24, 3), (33, 32, 1)])
def test_all_heights_and_widths_are_accepted(torch, C, M, K):
    # The shared memory that a shape would need grows with height and width, up to more than the device has.
    for W in (K, K + 1, K + 2, 12, 31):
        for H in range(K, 130):
            check_launch(torch, (7, C, H, W, M, K))


def test_all_numbers_of_filters_and_channels_are_accepted(torch):
    for C in (1, 2, 5, 64, 65, 256):
        for M in range(1, 257, 5):
            check_launch(torch, (2, C, 9, 11, M, 3))
