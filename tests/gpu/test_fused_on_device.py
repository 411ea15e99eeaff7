"""The fused mode's CUDA executor, with PyTorch's tensors and host memory.

The oracle is PyTorch in float64, except where results of the executor must be equal to each other.
"""

import time

import chains
import numpy as np
import profiles
import pytest
import torch_chains
from torch_chains import error, on_device, weights

from fashion_infer import errors
from fashion_infer.graph.layers import Convolution, Dense, Flatten, MaxPool, Relu, Tanh
from fashion_infer.library import bindings, fused, op_times

hypothesis = pytest.importorskip("hypothesis")
st = hypothesis.strategies

pytestmark = pytest.mark.gpu
LIMIT = 2e-6  # largest error, as a fraction of the range of the logits


def on_gpu(chain, arrays, precision="float32"):
    """Return the chain as a fused network on the GPU."""
    return chain.fused(arrays, backend="gpu", precision=precision)


@pytest.mark.parametrize("kind", ["uint8", "pixels", "reals"])
@pytest.mark.parametrize("name", chains.COURSE)
def test_course_network(torch, name, kind):
    chain = chains.course(name, logits=True)
    arrays, images = weights(chain, pixels=kind != "reals"), chain.items(301, kind)
    network, want = on_gpu(chain, arrays), torch_chains.reference(torch, chain, images, arrays)
    assert error(on_device(torch, network, torch.as_tensor(images).cuda()).cpu().numpy(), want) <= LIMIT
    host = network.forward(images)
    assert error(host, want) <= LIMIT
    assert (host.argmax(1) == want.argmax(1)).all()


@pytest.mark.parametrize("name", chains.COURSE)
def test_softmax_after_the_last_layer(torch, name):
    chain = chains.course(name)
    arrays, images = weights(chain), chain.items(100)
    y = on_gpu(chain, arrays).forward(images)
    assert np.abs(y - torch_chains.reference(torch, chain, images, arrays)).max() <= 2e-6
    assert np.abs(y.sum(1) - 1).max() <= 1e-6


def test_networks_of_every_height(torch):
    for height in range(6, 90):
        chain = chains.Chain([Convolution(17, 5), Tanh(), MaxPool(), Flatten(), Dense(3)], (1, height, 9))
        arrays, images = weights(chain), chain.items(5)
        want = torch_chains.reference(torch, chain, images, arrays)
        assert np.abs(on_gpu(chain, arrays).forward(images) - want).max() <= 1e-5 * max(1, np.abs(want).max()), height


def test_tanh_of_every_float32(torch):
    """The error is at most four units in the last place (docs/precision.md)."""
    network = on_gpu(chains.Chain([Tanh()], (1 << 16,)), {})
    for first in range(0, 0x7F800000, 1 << 24):
        magnitude = torch.arange(first, first + (1 << 24), dtype=torch.int32, device="cuda")
        for sign in (0, -(1 << 31)):
            x = (magnitude | sign).view(torch.float32).reshape(-1, 1 << 16)
            want = x.double().tanh()
            size = want.abs().float()
            unit = torch.nextafter(size, torch.full_like(size, 2)).double() - size.double()
            y = on_device(torch, network, x).view_as(x).double()
            assert bool(((y - want).abs() <= 4 * unit)[~x.isnan()].all())
            assert bool(y[x.isnan()].isnan().all())


@pytest.mark.parametrize("precision", ["tf32", "fp16"])
def test_lower_precision_on_request(torch, precision):
    chain = chains.course("fa2017", logits=True)
    arrays, images = weights(chain), chain.items(200)
    want = torch_chains.reference(torch, chain, images, arrays)
    assert 1e-6 < error(on_gpu(chain, arrays, precision).forward(images), want) <= 2e-3


def test_unknown_precision_is_refused(torch):
    chain, handle = chains.course("fa2017"), bindings.Handle()
    nodes, kept = fused.c_nodes(chain.symbol())
    status = bindings.load().fops_network_create(
        nodes, len(nodes), bindings.sizes(chain.shape), 3, bindings.BACKENDS["gpu"], 0, b"float8", handle
    )
    assert (status, handle.value) == (bindings.INVALID, None) and kept
    assert "float8" in bindings.message()


LARGE = chains.large()


@pytest.mark.parametrize("kind", ["uint8", "reals"])
def test_random_chains(torch, kind):
    @profiles.on_device(80)
    @hypothesis.given(LARGE, st.integers(1, 70), st.integers(0, 99), st.integers(0, 1))
    def check(chain, n, seed, offset):
        arrays, images = weights(chain, seed, kind != "reals"), chain.items(n + offset, kind, seed)
        network = on_gpu(chain, arrays)
        want = torch_chains.reference(torch, chain, images[offset:], arrays)
        # Deep chains without tanh amplify rounding: in 3,000 of them, the error of plain float32 was up to 1.4e-5 of
        # the largest output. Therefore the limit also allows for the error of PyTorch's float32.
        with torch.backends.cudnn.flags(enabled=False):
            x = torch.as_tensor(images[offset:]).cuda().float()
            plain = torch_chains.forward(torch, chain, x, arrays).cpu().numpy()
        limit = 2e-5 * max(np.abs(want).max(), 0.1) + 4 * np.abs(plain - want).max()
        x = torch.as_tensor(images).cuda()[offset:]  # a slice need not start at a 16-byte boundary
        for y in (on_device(torch, network, x).cpu().numpy(), network.forward(images[offset:])):
            wrong = np.abs(y - want).max()
            assert wrong <= limit, (wrong, limit, chain)

    check()


@pytest.mark.parametrize("slice_", [1, 7, 64])
def test_slices_that_do_not_divide_n(torch, monkeypatch, slice_):
    chain = chains.course("fa2017", logits=True)
    arrays, images = weights(chain), chain.items(200)
    want = torch_chains.reference(torch, chain, images, arrays)
    monkeypatch.setenv("FASHION_OPS_SLICE", str(slice_))
    network = on_gpu(chain, arrays)
    for n in (1, slice_, slice_ + 1, 200, 3):
        for given in (images[:n], images[:n].astype(np.float32)):
            assert error(network.forward(given), want[:n]) <= LIMIT
            y = on_device(torch, network, torch.as_tensor(given).cuda())
            assert error(y.cpu().numpy(), want[:n]) <= LIMIT


def test_large_batches_from_pinned_and_pageable_memory(torch):
    chain = chains.course("fa2017", logits=True)
    arrays, images = weights(chain), chain.items(20011)
    want = torch_chains.reference(torch, chain, images, arrays)
    network, pinned = on_gpu(chain, arrays), torch.as_tensor(images).pin_memory().numpy()
    out = torch.empty(len(images), 10, pin_memory=True).numpy()
    for given, result in ((images, None), (pinned, None), (pinned, out), (images, out)):
        out.fill(np.nan)
        assert error(network.forward(given, out=result), want) <= LIMIT


@pytest.mark.parametrize("name", ["fa2017", "sp2018", "layers"])  # "layers": a first layer whose data is copied
def test_predictions_and_scores_from_pinned_memory(torch, name):
    chain = chains.course(name) if name != "layers" else chains.Chain([Dense(40), Tanh(), Dense(12)], (1, 20, 20))
    arrays, images = weights(chain), chain.items(16400)
    network, pinned = on_gpu(chain, arrays), torch.as_tensor(images).pin_memory().numpy()
    cases = (1, "uint8"), (90, "uint8"), (1024, "float32"), (1025, "uint8"), (9000, "uint8"), (16400, "float32")
    for n, kind in cases:
        sources = images[:n].astype(kind), torch.as_tensor(pinned[:n].astype(kind)).pin_memory().numpy()
        want = np.concatenate([network.forward(sources[0][at : at + 1000]) for at in range(0, n, 1000)])
        classes = torch.empty(n, dtype=torch.int32, pin_memory=True).numpy()
        scores = torch.empty(n, want.shape[1], pin_memory=True).numpy()
        for source in sources * 3:  # repeated, so that a CUDA graph runs
            for out in (None, classes):
                classes.fill(-1)
                np.testing.assert_array_equal(network.predict(source, out), want.argmax(1))
            for out in (None, scores):
                scores.fill(np.nan)
                np.testing.assert_array_equal(network.forward(source, out=out), want)


def test_predictions_of_equal_scores(torch):
    chain, arrays, data = chains.with_equal_scores(3000)
    network = on_gpu(chain, arrays)
    np.testing.assert_array_equal(network.predict(data), network.forward(data).argmax(1))


@pytest.mark.alone
def test_little_device_memory(torch):
    chain = chains.course("fa2019", logits=True)
    arrays, images = weights(chain), chain.items(3000)  # about 0.2 MB of intermediate data per image
    want = torch_chains.reference(torch, chain, images[:200], arrays)
    torch.cuda.empty_cache()
    x, out = torch.as_tensor(images).cuda(), torch.empty(3000, 10, device="cuda")
    hog = torch.empty(torch.cuda.mem_get_info()[0] - (400 << 20), dtype=torch.uint8, device="cuda")
    try:
        network = on_gpu(chain, arrays)
        free = 0
        for _ in range(2):
            assert error(network.forward(images)[:200], want) <= LIMIT
            assert error(on_device(torch, network, x, out)[:200].cpu().numpy(), want) <= LIMIT
            free, before = torch.cuda.mem_get_info()[0], free
        assert free == before
    finally:
        del hog
        torch.cuda.empty_cache()


def test_new_data_in_the_same_buffers(torch):
    # From the second call on, the same CUDA graph runs.
    chain = chains.course("fa2017", logits=True)
    arrays = weights(chain)
    network = on_gpu(chain, arrays)
    for n in (5, 64):
        x = torch.empty(n, 1, 28, 28, dtype=torch.uint8, device="cuda")
        out = torch.empty(n, 10, device="cuda")
        for seed in range(5):
            images = chain.items(n, seed=seed)
            want = torch_chains.reference(torch, chain, images, arrays)
            x.copy_(torch.as_tensor(images))
            assert error(on_device(torch, network, x, out).cpu().numpy(), want) <= LIMIT
            assert error(network.forward(images), want) <= LIMIT


def test_changed_weights_are_used(torch):
    chain = chains.course("fa2017", logits=True)
    images = chain.items(64)
    x = torch.as_tensor(images).cuda()
    network, out = on_gpu(chain, weights(chain, 0)), torch.empty(64, 10, device="cuda")
    for seed in range(4):
        arrays = weights(chain, seed)
        network.set_weights(arrays)
        want = torch_chains.reference(torch, chain, images, arrays)
        for _ in range(3):
            assert error(on_device(torch, network, x, out).cpu().numpy(), want) <= LIMIT
            assert error(network.forward(images), want) <= LIMIT


def test_weights_beyond_the_range_of_fp16(torch):
    for size in (1e-12, 1e-9, 1e9):
        chain = chains.Chain([Convolution(20, 5), Tanh(), MaxPool(), Flatten(), Dense(40), Tanh()], (1, 20, 20))
        arrays = weights(chain, pixels=False)
        arrays["convolution0_weight"] = arrays["convolution0_weight"] * np.float32(size)
        images = chain.items(20, "reals") / np.float32(size)
        want = torch_chains.reference(torch, chain, images, arrays)
        assert error(on_gpu(chain, arrays).forward(images), want) <= 4e-6


@pytest.mark.parametrize("kind", ["uint8", "reals"])
@pytest.mark.parametrize("pool", [(4, 4, True), (2, 2, True), (3, 2), (3, 1, True), (2, 5)])
def test_relu_and_any_pool(torch, pool, kind):
    layers = [Convolution(6, 7), Relu(), MaxPool(*pool), Convolution(20, 5), MaxPool(*pool), Relu()]
    chain = chains.Chain([*layers, Flatten(), Dense(50), Relu(), Dense(10)], (1, 86, 86))
    arrays, images = weights(chain, pixels=kind != "reals"), chain.items(150, kind)
    want = torch_chains.reference(torch, chain, images, arrays)
    network = on_gpu(chain, arrays)
    scores = network.forward(images)
    assert error(scores, want) <= 4e-6
    x = torch.as_tensor(images).cuda()
    for part in (slice(0, 1), slice(3, 11), slice(70, 150)):  # an image's result does not depend on its batch
        np.testing.assert_array_equal(on_device(torch, network, x[part]).cpu().numpy(), scores[part])


@pytest.mark.parametrize("kind", ["uint8", "pixels", "reals"])
def test_pooled_pixels(torch, kind):
    """A 5x5 convolution of one channel, tanh and a 2x2 pool, which run as one kernel, give PyTorch's float64 results.

    The kernel has variants by number of filters, image size and next layer.
    """
    sides = st.integers(6, 40) | st.integers(60, 74)

    @profiles.on_device(60)
    @hypothesis.given(
        st.integers(1, 66), sides, sides, st.integers(1, 900), st.integers(0, 3), st.booleans(), st.integers(0, 99)
    )
    def check(filters, h, w, n, offset, dense, seed):
        layers = [Convolution(filters, 5), Tanh(), MaxPool(), *([Flatten(), Dense(20)] if dense else [])]
        chain = chains.Chain(layers, (1, h, w))
        n = max(1, min(n, 40_000_000 // (filters * h * w)))
        arrays, images = weights(chain, seed, kind != "reals"), chain.items(n + offset, kind, seed)
        want = torch_chains.reference(torch, chain, images[offset:], arrays)
        x = torch.as_tensor(images).cuda()[offset:]  # a slice need not start at a 16-byte boundary
        y = on_device(torch, on_gpu(chain, arrays), x).cpu().numpy()
        wrong = np.abs(y - want).max()
        assert wrong <= LIMIT * max(np.abs(want).max(), 0.5), (wrong, chain, n, offset)

    check()


@pytest.mark.parametrize("activation", [None, Tanh, Relu])
def test_convolutions_before_a_dense_layer(torch, activation):
    """Convolutions directly before a dense layer are correct in every layout of their outputs.

    Some convolutions write fp16 values themselves, plane by plane or with the filters of a position side by side;
    others write floats (halves_order, conv/cuda/halves_out.h). Results do not depend on the batch, and infinities and
    NaN stay with their image.
    """

    @profiles.on_device(120)
    @hypothesis.given(
        st.one_of(
            st.tuples(st.integers(2, 6), st.integers(9, 16), st.just(5)),
            st.tuples(st.integers(11, 12), st.integers(17, 24), st.sampled_from([5, 7])),
            st.tuples(st.integers(2, 20), st.integers(1, 32), st.integers(1, 9)),
        ),
        st.tuples(st.integers(0, 40), st.integers(0, 40)),
        st.integers(17, 140),
        st.integers(1, 300),
        st.integers(0, 99),
    )
    def check(convolution, more, units, n, seed):
        channels, filters, k = convolution
        # A dense layer takes fp16 inputs only if they are bounded, here by a tanh before or after the convolution.
        layers = [Convolution(filters, k), Tanh()] if activation is Tanh else [Tanh(), Convolution(filters, k)]
        layers += [Relu()] if activation is Relu else []
        chain = chains.Chain([*layers, Flatten(), Dense(units)], (channels, k + more[0], k + more[1]))
        arrays, images = weights(chain, seed, False), chain.items(n, "normal", seed)
        network, want = on_gpu(chain, arrays), torch_chains.reference(torch, chain, images, arrays)
        with torch.backends.cudnn.flags(enabled=False):
            plain = torch_chains.forward(torch, chain, torch.as_tensor(images).cuda(), arrays).cpu().numpy()
        limit = 4e-6 * max(np.abs(want).max(), 0.1) + 4 * np.abs(plain - want).max()
        scores = network.forward(images)
        assert np.abs(scores - want).max() <= limit
        first = seed % n
        np.testing.assert_array_equal(network.forward(images[first:]), scores[first:])
        images[first].flat[seed % images[0].size] = (np.nan, np.inf, -np.inf, 1e30)[seed % 4]
        others, marked = np.delete(network.forward(images), first, 0), network.forward(images[first : first + 1])
        np.testing.assert_array_equal(others, np.delete(scores, first, 0))
        want = torch_chains.reference(torch, chain, images[first : first + 1], arrays)
        # Infinity times a zero weight, or infinities of both signs in a sum, give NaN, in float64 as on the GPU.
        np.testing.assert_array_equal(np.isnan(marked), np.isnan(want))
        assert np.isnan(want).any() or np.abs(marked - want).max() <= limit + 1e-5 * np.abs(want).max()

    check()


def test_relu_keeps_nan(torch):
    chain = chains.Chain([Relu(), MaxPool(3, 2, True), Relu()], (1, 9, 40))
    images = -chain.items(40, "pixels")
    images[np.arange(40), 0, 4, np.arange(40)] = np.nan
    want = torch_chains.reference(torch, chain, images, {})
    np.testing.assert_array_equal(on_gpu(chain, {}).forward(images), want)


def test_passes_on_two_streams_share_the_buffers(torch):
    chain = chains.course("fa2017", logits=True)
    arrays = weights(chain)
    network, streams = on_gpu(chain, arrays), [torch.cuda.Stream() for _ in range(2)]
    batches = [chain.items(700, seed=seed) for seed in range(2)]
    xs = [torch.as_tensor(batch).cuda() for batch in batches]
    outs = [torch.empty(700, 10, device="cuda") for _ in range(2)]
    torch.cuda.synchronize()
    for _ in range(5):
        for stream, x, out in zip(streams, xs, outs):
            on_device(torch, network, x, out, stream)
    torch.cuda.synchronize()
    for batch, out in zip(batches, outs):
        assert error(out.cpu().numpy(), torch_chains.reference(torch, chain, batch, arrays)) <= LIMIT


def test_a_pass_in_a_graph_of_the_caller(torch):
    chain = chains.course("fa2017", logits=True)
    arrays = weights(chain)
    network = on_gpu(chain, arrays)
    x = torch.as_tensor(chain.items(300)).cuda()
    out = on_device(torch, network, x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        torch_chains.launch(torch, network, x, out)
    images = chain.items(300, seed=9)
    x.copy_(torch.as_tensor(images))
    out.fill_(float("nan"))
    graph.replay()
    assert error(out.cpu().numpy(), torch_chains.reference(torch, chain, images, arrays)) <= LIMIT


@pytest.mark.parametrize("column", [10, 11])  # pixels are staged in pairs: even and odd
@pytest.mark.parametrize("name", ["fa2017", "sp2018"])
def test_infinities_and_nan_stay_with_their_image(torch, name, column):
    chain = chains.course(name, logits=True)
    arrays, images = weights(chain, pixels=False), chain.items(6, "reals")
    images[2, 0, 10, column], images[4, 0, 3, 3] = np.inf, np.nan
    want = torch_chains.reference(torch, chain, images, arrays)
    network = on_gpu(chain, arrays)
    y = network.forward(images)
    np.testing.assert_array_equal(network.predict(images), y.argmax(1))
    fine = [0, 1, 3, 5]
    assert error(y[fine], want[fine]) <= LIMIT
    assert np.isnan(y[4]).all()
    assert error(y[2:3], want[2:3]) <= LIMIT or np.isnan(want[2]).any()


def test_stage_times_are_logged(torch):
    chain = chains.course("fa2017")
    network, images = on_gpu(chain, weights(chain)), chain.items(3000)
    network.forward(images)
    op_times.drain()
    began = time.perf_counter()
    network.forward(images, layer_times=True)
    wall = time.perf_counter() - began
    log = op_times.drain()
    assert [(each.first_node, each.last_node) for each in log] == [
        (stage.first_node, stage.last_node) for stage in network.stages
    ]
    assert log[0].seconds > 0 and log[1].seconds > 0 and log[0].upload > 0 and log[-1].download > 0
    assert sum(each.seconds for each in log) < wall  # the stages run one after another


@pytest.mark.alone
def test_no_device_memory_leaks(torch):
    chain = chains.course("fa2017")
    images, x = chain.items(500), torch.as_tensor(chain.items(500)).cuda()
    for rebuild in (False, True):
        network = on_gpu(chain, weights(chain))
        on_device(torch, network, x), network.forward(images)
        torch.cuda.synchronize()
        before = torch.cuda.mem_get_info()[0]
        for n in range(200 if not rebuild else 10):
            if rebuild:
                network = on_gpu(chain, weights(chain))
            on_device(torch, network, x), network.forward(images[: 1 + n])
        torch.cuda.synchronize()
        assert before - torch.cuda.mem_get_info()[0] <= 16 << 20


def test_a_missing_device(torch):
    chain = chains.course("fa2017")
    with pytest.raises(errors.DeviceError):
        chain.fused(weights(chain), backend="gpu", device=99)
