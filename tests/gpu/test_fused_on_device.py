"""The fused mode's CUDA executor against float64, on tensors of PyTorch and on host memory."""

import ctypes
import time

import fused_nets
import numpy as np
import pytest

from fashion_infer import errors
from fashion_infer.library import operators

hypothesis = pytest.importorskip("hypothesis")
st = hypothesis.strategies

pytestmark = pytest.mark.gpu
LIMIT = 2e-6  # of the logits' range


def on_device(torch, net, x, out=None, stream=None):
    """One pass over device tensors; the output is poisoned before."""
    if out is None:
        out = torch.empty(len(x), int(np.prod(net.stages[-1].output)), device="cuda")
    stream = torch.cuda.current_stream() if stream is None else stream
    with torch.cuda.stream(stream):
        out.fill_(float("nan"))
    dtype = np.uint8 if x.dtype == torch.uint8 else np.float32
    net.launch(len(x), x.data_ptr(), dtype, out.data_ptr(), stream.cuda_stream)
    return out


@pytest.mark.parametrize("kind", ["uint8", "pixels", "reals"])
@pytest.mark.parametrize("name", fused_nets.COURSE)
def test_course_network(torch, name, kind):
    chain = fused_nets.course(name, logits=True)
    weights, images = chain.weights(pixels=kind != "reals"), chain.images(301, kind)
    net, want = chain.net(weights), chain.reference(torch, images, weights)
    assert fused_nets.error(on_device(torch, net, torch.as_tensor(images).cuda()).cpu().numpy(), want) <= LIMIT
    host = net.forward(images)
    assert fused_nets.error(host, want) <= LIMIT
    assert (host.argmax(1) == want.argmax(1)).all()


@pytest.mark.parametrize("name", fused_nets.COURSE)
def test_softmax_behind_the_last_layer(torch, name):
    chain = fused_nets.course(name)
    weights, images = chain.weights(), chain.images(100)
    y = chain.net(weights).forward(images)
    assert np.abs(y - chain.reference(torch, images, weights)).max() <= 2e-6
    assert np.abs(y.sum(1) - 1).max() <= 1e-6


@pytest.mark.parametrize("precision", ["tf32", "fp16"])
def test_lower_precision_on_request(torch, precision):
    chain = fused_nets.course("fa2017", logits=True)
    weights, images = chain.weights(), chain.images(200)
    want = chain.reference(torch, images, weights)
    assert 1e-6 < fused_nets.error(chain.net(weights, precision).forward(images), want) <= 2e-3


def test_unknown_precision_is_refused(torch):
    chain = fused_nets.course("fa2017")
    handle, name = ctypes.c_void_p(), b"float8"
    net = chain.net(chain.weights())  # keeps the library loaded
    array, kept = fused_nets.c_nodes(chain)
    status = operators.library().fops_net_create(
        array, len(array), (ctypes.c_int64 * 3)(*chain.shape), 3, 1, 0, name, ctypes.byref(handle)
    )
    assert (status, handle.value) == (1, None) and net.stages and kept
    assert b"float8" in operators.library().fops_last_error()


@st.composite
def chains(draw):
    """A chain of any layers over items of any size."""
    shape = C, H, W = draw(st.integers(1, 7)), draw(st.integers(1, 30)), draw(st.integers(1, 30))
    layers, flat = [], draw(st.booleans()) and draw(st.booleans())
    if flat:
        shape = (C * H * W,)
    for _ in range(draw(st.integers(1, 6))):
        kinds = ["tanh", "dense"] + ["conv"] * 3 * (not flat) + ["pool"] * (not flat and min(H, W) > 1)
        kind = draw(st.sampled_from(kinds))
        if kind == "conv":
            side = draw(st.integers(1, min(11, H, W)))
            layers.append((kind, draw(st.integers(1, 70)), side))
            H, W = H - side + 1, W - side + 1
        elif kind == "dense":
            layers.append((kind, draw(st.sampled_from([1, 2, 7, 10, 16, 17, 31, 64, 129, 300]))))
            flat = True
        else:
            layers.append(kind)
            H, W = (H // 2, W // 2) if kind == "pool" else (H, W)
    if draw(st.booleans()):
        layers.append("softmax")
    return fused_nets.Chain(layers, shape, bias=draw(st.booleans()))


@pytest.mark.parametrize("kind", ["uint8", "reals"])
def test_random_chains(torch, kind):
    @hypothesis.settings(max_examples=80, deadline=None, suppress_health_check=list(hypothesis.HealthCheck))
    @hypothesis.given(chains(), st.integers(1, 70), st.integers(0, 99), st.integers(0, 1))
    def check(chain, n, seed, offset):
        weights, images = chain.weights(seed, kind != "reals"), chain.images(n + offset, kind, seed)
        net = chain.net(weights)
        want = chain.reference(torch, images[offset:], weights)
        # Deep chains without tanh amplify rounding: in 3,000 of them plain float32 came to 1.4e-5 of the largest
        # output. So what PyTorch's float32 is wrong by counts too.
        with torch.backends.cudnn.flags(enabled=False):
            plain = chain.run(torch, torch.as_tensor(images[offset:]).cuda().float(), weights).cpu().numpy()
        limit = 2e-5 * max(np.abs(want).max(), 0.1) + 4 * np.abs(plain - want).max()
        x = torch.as_tensor(images).cuda()[offset:]  # a slice need not begin on a 16-byte boundary
        for y in (on_device(torch, net, x).cpu().numpy(), net.forward(images[offset:])):
            wrong = np.abs(y - want).max()
            assert wrong <= limit, (wrong, limit, chain)

    check()


@pytest.mark.parametrize("slice_", [1, 7, 64])
def test_slices_that_do_not_divide_n(torch, monkeypatch, slice_):
    chain = fused_nets.course("fa2017", logits=True)
    weights, images = chain.weights(), chain.images(200)
    want = chain.reference(torch, images, weights)
    monkeypatch.setenv("FASHION_OPS_SLICE", str(slice_))
    net = chain.net(weights)
    for n in (1, slice_, slice_ + 1, 200, 3):
        for given in (images[:n], images[:n].astype(np.float32)):
            assert fused_nets.error(net.forward(given), want[:n]) <= LIMIT
            y = on_device(torch, net, torch.as_tensor(given).cuda())
            assert fused_nets.error(y.cpu().numpy(), want[:n]) <= LIMIT


def test_large_batches_from_pinned_and_pageable_memory(torch):
    chain = fused_nets.course("fa2017", logits=True)
    weights, images = chain.weights(), chain.images(20011)
    want = chain.reference(torch, images, weights)
    net, pinned = chain.net(weights), torch.as_tensor(images).pin_memory().numpy()
    out = torch.empty(len(images), 10, pin_memory=True).numpy()
    for given, result in ((images, None), (pinned, None), (pinned, out), (images, out)):
        out.fill(np.nan)
        assert fused_nets.error(net.forward(given, out=result), want) <= LIMIT


def test_little_device_memory(torch):
    chain = fused_nets.course("fa2019", logits=True)
    weights, images = chain.weights(), chain.images(3000)  # some 0.2 MB each between the stages
    want = chain.reference(torch, images[:200], weights)
    torch.cuda.empty_cache()
    x, out = torch.as_tensor(images).cuda(), torch.empty(3000, 10, device="cuda")
    hog = torch.empty(torch.cuda.mem_get_info()[0] - (400 << 20), dtype=torch.uint8, device="cuda")
    try:
        net = chain.net(weights)
        free = 0
        for _ in range(2):
            assert fused_nets.error(net.forward(images)[:200], want) <= LIMIT
            assert fused_nets.error(on_device(torch, net, x, out)[:200].cpu().numpy(), want) <= LIMIT
            free, before = torch.cuda.mem_get_info()[0], free
        assert free == before
    finally:
        del hog
        torch.cuda.empty_cache()


def test_the_same_buffers_again_with_other_data(torch):
    # From the second call on a graph is replayed.
    chain = fused_nets.course("fa2017", logits=True)
    weights = chain.weights()
    net = chain.net(weights)
    for n in (5, 64):
        x = torch.empty(n, 1, 28, 28, dtype=torch.uint8, device="cuda")
        out = torch.empty(n, 10, device="cuda")
        for seed in range(5):
            images = chain.images(n, seed=seed)
            want = chain.reference(torch, images, weights)
            x.copy_(torch.as_tensor(images))
            assert fused_nets.error(on_device(torch, net, x, out).cpu().numpy(), want) <= LIMIT
            assert fused_nets.error(net.forward(images), want) <= LIMIT


def test_weights_changed_between_passes_are_seen(torch):
    chain = fused_nets.course("fa2017", logits=True)
    images = chain.images(64)
    x = torch.as_tensor(images).cuda()
    net, out = chain.net(chain.weights(0)), torch.empty(64, 10, device="cuda")
    for seed in range(4):
        weights = chain.weights(seed)
        net.set_weights(weights)
        want = chain.reference(torch, images, weights)
        for _ in range(3):
            assert fused_nets.error(on_device(torch, net, x, out).cpu().numpy(), want) <= LIMIT
            assert fused_nets.error(net.forward(images), want) <= LIMIT


def test_weights_that_half_precision_cannot_hold(torch):
    for size in (1e-12, 1e-9, 1e9):
        chain = fused_nets.Chain([("conv", 20, 5), "tanh", "pool", ("dense", 40), "tanh"], (1, 20, 20))
        weights = chain.weights(pixels=False)
        weights["conv0_weight"] = weights["conv0_weight"] * np.float32(size)
        images = chain.images(20, "reals") / np.float32(size)
        want = chain.reference(torch, images, weights)
        assert fused_nets.error(chain.net(weights).forward(images), want) <= 4e-6


def test_passes_on_two_streams_share_the_buffers(torch):
    chain = fused_nets.course("fa2017", logits=True)
    weights = chain.weights()
    net, streams = chain.net(weights), [torch.cuda.Stream() for _ in range(2)]
    batches = [chain.images(700, seed=seed) for seed in range(2)]
    xs = [torch.as_tensor(batch).cuda() for batch in batches]
    outs = [torch.empty(700, 10, device="cuda") for _ in range(2)]
    torch.cuda.synchronize()
    for _ in range(5):
        for stream, x, out in zip(streams, xs, outs):
            on_device(torch, net, x, out, stream)
    torch.cuda.synchronize()
    for batch, out in zip(batches, outs):
        assert fused_nets.error(out.cpu().numpy(), chain.reference(torch, batch, weights)) <= LIMIT


def test_a_callers_own_graph(torch):
    chain = fused_nets.course("fa2017", logits=True)
    weights = chain.weights()
    net = chain.net(weights)
    x = torch.as_tensor(chain.images(300)).cuda()
    out = on_device(torch, net, x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        net.launch(300, x.data_ptr(), np.uint8, out.data_ptr(), torch.cuda.current_stream().cuda_stream)
    images = chain.images(300, seed=9)
    x.copy_(torch.as_tensor(images))
    out.fill_(float("nan"))
    graph.replay()
    assert fused_nets.error(out.cpu().numpy(), chain.reference(torch, images, weights)) <= LIMIT


def test_infinities_and_nan_stay_with_their_image(torch):
    chain = fused_nets.course("fa2017", logits=True)
    weights, images = chain.weights(pixels=False), chain.images(6, "reals")
    images[2, 0, 10, 10], images[4, 0, 3, 3] = np.inf, np.nan
    want = chain.reference(torch, images, weights)
    y = chain.net(weights).forward(images)
    fine = [0, 1, 3, 5]
    assert fused_nets.error(y[fine], want[fine]) <= LIMIT
    assert np.isnan(y[4]).all()
    assert fused_nets.error(y[2:3], want[2:3]) <= LIMIT or np.isnan(want[2]).any()


def test_stage_times_are_logged(torch):
    chain = fused_nets.course("fa2017")
    net, images = chain.net(chain.weights()), chain.images(3000)
    net.forward(images)
    operators.drain_log()
    began = time.perf_counter()
    net.forward(images, layer_times=True)
    wall = time.perf_counter() - began
    log = operators.drain_log()
    assert [each.layer for each in log] == [stage.name for stage in net.stages]
    assert log[0].seconds > 0 and log[1].seconds > 0 and log[0].upload > 0 and log[-1].download > 0
    assert sum(each.seconds for each in log) < wall  # one stage after the other


def test_no_memory_is_lost(torch):
    chain = fused_nets.course("fa2017")
    images, x = chain.images(500), torch.as_tensor(chain.images(500)).cuda()
    for rebuild in (False, True):
        net = chain.net(chain.weights())
        on_device(torch, net, x), net.forward(images)
        torch.cuda.synchronize()
        before = torch.cuda.mem_get_info()[0]
        for n in range(200 if not rebuild else 10):
            if rebuild:
                net = chain.net(chain.weights())
            on_device(torch, net, x), net.forward(images[: 1 + n])
        torch.cuda.synchronize()
        assert before - torch.cuda.mem_get_info()[0] <= 16 << 20


def test_no_such_device(torch):
    chain = fused_nets.course("fa2017")
    with pytest.raises(errors.DeviceError):
        fused_nets.nets.Net(chain.symbol(), chain.weights(), chain.shape, "gpu", device=99)
