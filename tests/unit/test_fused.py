"""The fused mode: chains of layers as stages, with and without MXNet, compared with float64 and MXNet."""

import json
from concurrent.futures import ThreadPoolExecutor

import chains
import numpy as np
import profiles
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st

from fashion_infer import _mxnet
from fashion_infer._mxnet import plugin
from fashion_infer.errors import CheckpointError, UsageError
from fashion_infer.graph.layers import Convolution, Dense, Flatten, MaxPool, Relu, Tanh
from fashion_infer.library import bindings, op_times
from fashion_infer.library.fused import FusedNetwork

# The limit is for several layers with float32 sums of up to 2,880 terms. The errors of 2,500 random chains were at most
# 2.2e-6, with a 99th percentile of 8e-7. tests/pipeline limits errors of the course's networks to 2e-6 of their range.
TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def mx():
    plugin.load_operators()
    return _mxnet.load()


@pytest.fixture(autouse=True)
def default_threads():
    yield
    bindings.set_threads(None)


def bound(mx, symbol, arrays, data, dtype=None):
    known = symbol.list_arguments()
    arguments = {name: mx.nd.array(values) for name, values in arrays.items() if name in known}
    arguments["data"] = mx.nd.array(data, dtype=dtype or data.dtype)
    if "softmax_label" in known:
        arguments["softmax_label"] = mx.nd.zeros((len(data),))
    with _mxnet.quiet():
        return symbol.bind(mx.cpu(), args=arguments, grad_req="null")


def run(executor):
    return executor.forward(is_train=False)[0].asnumpy()


def error(got, wanted):
    """Return the largest error as a fraction of the largest magnitude, or of 0.5 if that is larger."""
    return np.abs(got - wanted).max() / max(np.abs(wanted).max(), 0.5)


def operators_of(symbol):
    return [node["op"] for node in json.loads(symbol.tojson())["nodes"] if node["op"] != "null"]


@given(chains.chains(), st.integers(1, 5), st.integers(0, 2**32 - 1))
@settings(max_examples=profiles.examples(40))
def test_random_chains_in_mxnets_graph(chain, n, seed):
    plugin.load_operators()
    mx = _mxnet.load()
    weights, data = chain.weights(seed), chain.items(n, "normal", seed)
    plain = chain.mxnet(mx)
    fused = plain.optimize_for("fashion_infer")
    assert operators_of(fused) == ["_fashion_infer_network"]
    theirs, ours = run(bound(mx, plain, weights, data)), run(bound(mx, fused, weights, data))
    assert ours.shape == theirs.shape
    assert error(ours, theirs) < TOLERANCE


def test_tanh_is_within_4_ulp_of_the_true_value():
    """Each run tests every 499th float from zero to infinity with both signs, from a random start; `make test-all`
    tests every float. The largest error over all floats was 2.42 ulp.
    """
    for first in profiles.pick([int(np.random.default_rng().integers(499))], range(499)):
        _check_tanh(np.arange(first, 0x7F800001, 499, dtype=np.uint32).view(np.float32))
    nan = np.full((1, 100), np.nan, np.float32)
    assert np.isnan(chains.Chain([Tanh()], (100,)).fused({}).forward(nan)).all()


def _check_tanh(x):
    x = np.concatenate([x, np.float32([9.01, 9.02, 9.03, 88.7, np.inf])])
    x = np.concatenate([x, -x])
    network = chains.Chain([Tanh()], (x.size,)).fused({})
    y, wanted = network.forward(x[np.newaxis])[0], np.tanh(x.astype(np.float64))
    ulp = np.spacing(np.abs(wanted).astype(np.float32)).astype(np.float64)
    assert (np.abs(y - wanted) / ulp).max() <= 4
    np.testing.assert_array_equal(np.signbit(y), np.signbit(x))


@given(st.data())
@settings(max_examples=profiles.examples(150))
def test_pools_equal_mxnets(data):
    mx = _mxnet.load()
    channels, h, w, n = (data.draw(st.integers(1, most)) for most in (4, 45, 45, 3))
    size, stride = data.draw(st.integers(1, min(h, w, 9))), data.draw(st.integers(1, 9))
    full, relu, pixels = stride <= size and data.draw(st.booleans()), data.draw(st.booleans()), data.draw(st.booleans())
    chain = chains.Chain([MaxPool(size, stride, full)] + [Relu()] * relu, (channels, h, w))
    items = chain.items(n, "uint8" if pixels else "normal", data.draw(st.integers(0, 99)))
    theirs = mx.nd.Pooling(
        mx.nd.array(items, dtype=np.float32),
        kernel=(size, size),
        stride=(stride, stride),
        pool_type="max",
        pooling_convention="full" if full else "valid",
    )
    theirs = (mx.nd.relu(theirs) if relu else theirs).asnumpy()
    network = chain.fused({})
    assert network.stages[0].output == theirs.shape[1:]
    np.testing.assert_array_equal(network.forward(items).reshape(theirs.shape), theirs)


@pytest.mark.parametrize("pool", [(2, 2), (2, 2, True), (3, 1), (3, 2, True), (4, 4, True), (2, 3), (6, 5), (1, 4), ()])
def test_a_wide_convolution_before_pools(pool):
    """A row needs 110 KB of shifted copies, so that a band has only two or three rows."""
    layers = [Convolution(9, 3), Relu()] + [MaxPool(*pool)] * bool(pool)
    chain = chains.Chain(layers, (230, 41, 40))
    weights, data = chain.weights(), chain.items(2, "normal")
    wanted = reference.forward(chain.layers, weights, data).reshape(2, -1)
    assert error(chain.fused(weights).forward(data), wanted) < TOLERANCE


def test_stages_include_pools_and_activations():
    """Further pools and activations become separate stages of the kind "map"."""

    def stages(*layers):
        chain = chains.Chain([*layers, Dense(3)], (2, 30, 30))
        return [
            (s.kind, s.activation, s.pool_size, s.pool_stride, s.output) for s in chain.fused(chain.weights()).stages
        ][:-1]

    convolution, pool = Convolution(4, 7), MaxPool(4, 3, True)
    assert stages(convolution, Relu(), pool) == [("convolution", "relu", 4, 3, (4, 8, 8))]
    assert stages(convolution, pool, Tanh()) == [("convolution", "tanh", 4, 3, (4, 8, 8))]
    assert stages(convolution, MaxPool(3, 1)) == [("convolution", "", 3, 1, (4, 22, 22))]
    assert stages(convolution, Relu(), Tanh(), pool) == [
        ("convolution", "relu", 0, 0, (4, 24, 24)),
        ("map", "tanh", 4, 3, (4, 8, 8)),
    ]
    assert stages(convolution, pool, pool, Relu()) == [
        ("convolution", "", 4, 3, (4, 8, 8)),
        ("map", "relu", 4, 3, (4, 3, 3)),
    ]
    assert stages(Relu(), Flatten(), Dense(7), Relu(), Relu()) == [
        ("map", "relu", 0, 0, (2, 30, 30)),
        ("dense", "relu", 0, 0, (7, 1, 1)),
        ("map", "relu", 0, 0, (7, 1, 1)),
    ]


def test_a_window_larger_than_the_image():
    with pytest.raises(UsageError):
        FusedNetwork(chains.Chain([MaxPool(4)], (1, 9, 9)).symbol(), {}, (1, 9, 3))


@pytest.mark.parametrize(
    "layer",
    [
        lambda mx, x: mx.sym.Convolution(x, no_bias=True, kernel=(3, 3), num_filter=2, pad=(1, 1)),
        lambda mx, x: mx.sym.Convolution(x, no_bias=True, kernel=(3, 3), num_filter=2, stride=(2, 2)),
        lambda mx, x: mx.sym.Convolution(x, no_bias=True, kernel=(3, 3), num_filter=2, dilate=(2, 2)),
        lambda mx, x: mx.sym.Convolution(x, no_bias=True, kernel=(3, 2), num_filter=2),
        lambda mx, x: mx.sym.Convolution(x, no_bias=True, kernel=(3, 3), num_filter=2, num_group=2),
        lambda mx, x: mx.sym.Convolution(x, kernel=(3, 3), num_filter=2),
        lambda mx, x: mx.sym.Activation(x, act_type="softrelu"),
        lambda mx, x: mx.sym.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="avg"),
        lambda mx, x: mx.sym.Pooling(x, kernel=(3, 2), stride=(2, 2), pool_type="max"),
        lambda mx, x: mx.sym.Pooling(x, kernel=(2, 2), stride=(2, 1), pool_type="max"),
        lambda mx, x: mx.sym.Pooling(x, kernel=(3, 3), stride=(2, 2), pad=(1, 1), pool_type="max"),
        lambda mx, x: mx.sym.Pooling(x, kernel=(3, 3), stride=(4, 4), pool_type="max", pooling_convention="full"),
        lambda mx, x: mx.sym.Pooling(x, kernel=(2, 2), pool_type="max", global_pool=True),
        lambda mx, x: mx.sym.FullyConnected(x, num_hidden=3, flatten=False),
        lambda mx, x: mx.sym.softmax(x),
        lambda mx, x: mx.sym.softmax(mx.sym.Flatten(x), temperature=2.0),
        lambda mx, x: mx.sym.exp(x),
    ],
)
def test_a_layer_that_cannot_be_fused_stays_with_mxnet(mx, layer):
    rng = np.random.default_rng(1)
    front = chains.Chain([Convolution(4, 3), Tanh()], (2, 13, 11))
    first = front.mxnet(mx)
    with mx.name.Prefix("odd_"):  # so that no name equals one of the chain's, such as convolution0
        odd = layer(mx, first)
    whole = mx.sym.FullyConnected(odd, num_hidden=5, name="last")
    data = front.items(3, "normal")
    shapes = dict(zip(whole.list_arguments(), whole.infer_shape(data=data.shape)[0]))
    arrays = {name: rng.standard_normal(s).astype(np.float32) / 4 for name, s in shapes.items() if name != "data"}
    fused = whole.optimize_for("fashion_infer")
    found = operators_of(fused)
    assert found.count("_fashion_infer_network") == 2
    assert json.loads(odd.tojson())["nodes"][-1]["op"] in found
    assert error(run(bound(mx, fused, arrays, data)), run(bound(mx, whole, arrays, data))) < TOLERANCE
    # Without MXNet, such a network is refused.
    with pytest.raises(UsageError):
        FusedNetwork(whole.tojson(), arrays, (2, 13, 11))


def test_branches_are_not_fused_together(mx):
    rng = np.random.default_rng(2)
    chain = chains.Chain([Convolution(4, 3)], (1, 9, 9))
    stem = chain.mxnet(mx)
    left = mx.sym.FullyConnected(mx.sym.tanh(stem), num_hidden=6, name="left")
    right = mx.sym.FullyConnected(stem, num_hidden=6, name="right")
    whole = mx.sym.Group([left + right, stem])
    data = chain.items(4, "normal")
    shapes = dict(zip(whole.list_arguments(), whole.infer_shape(data=data.shape)[0]))
    arrays = {name: rng.standard_normal(s).astype(np.float32) for name, s in shapes.items() if name != "data"}
    fused = whole.optimize_for("fashion_infer")
    assert sorted(operators_of(fused)) == [
        "Convolution",
        "_fashion_infer_network",
        "_fashion_infer_network",
        "elemwise_add",
    ]
    ours, theirs = (bound(mx, s, arrays, data).forward(is_train=False) for s in (fused, whole))
    for mine, other in zip(ours, theirs):
        assert error(mine.asnumpy(), other.asnumpy()) < TOLERANCE


def test_a_weight_that_is_computed(mx):
    rng = np.random.default_rng(3)
    weight = mx.sym.tanh(mx.sym.Variable("raw"))
    whole = mx.sym.FullyConnected(mx.sym.Variable("data"), weight, no_bias=True, num_hidden=4, name="dense")
    data, raw = (rng.standard_normal(shape).astype(np.float32) for shape in ((5, 7), (4, 7)))
    fused = whole.optimize_for("fashion_infer")
    got = run(bound(mx, fused, {"raw": raw}, data))
    assert error(got, data.astype(np.float64) @ np.tanh(raw.astype(np.float64)).T) < TOLERANCE


def test_an_activation_alone_is_not_fused(mx):
    symbol = mx.sym.tanh(mx.sym.Variable("data")).optimize_for("fashion_infer")
    assert operators_of(symbol) == ["tanh"]


def test_wrong_weights_and_shapes():
    chain = chains.Chain([Convolution(4, 3), Dense(5)], (1, 8, 8))
    symbol, arrays = chain.symbol(), chain.weights()
    with pytest.raises(CheckpointError):
        FusedNetwork(symbol, {k: v for k, v in arrays.items() if k != "fullyconnected0_bias"}, (1, 8, 8))
    with pytest.raises(CheckpointError):
        FusedNetwork(symbol, {**arrays, "convolution0_weight": arrays["convolution0_weight"][:2]}, (1, 8, 8))
    for shape, precision in (((1, 2, 2), "float32"), ((1, 8, 8), "fp16"), ((1, 8, 8), "int8")):
        with pytest.raises(UsageError):
            FusedNetwork(symbol, arrays, shape, precision=precision)
    network = FusedNetwork(symbol, arrays, (1, 8, 8))
    with pytest.raises(UsageError):
        network.forward(np.zeros((3, 1, 9, 8), np.float32))
    with pytest.raises(UsageError):
        network.launch(1, network._handle.value, np.float32, network._handle.value, 0)


@pytest.mark.parametrize("n", [1, 8200])
def test_predictions_are_numpys_argmax(n):
    chain, weights, data = chains.with_equal_scores(n)
    network = chain.fused(weights)
    scores = network.forward(data)
    out = np.full(n, -1, np.int32)
    assert network.predict(data, out) is out
    np.testing.assert_array_equal(out, scores.argmax(1))
    assert n == 1 or len(set(out)) > 3
    for wrong in (out.astype(np.int64), np.empty(n + 1, np.int32), np.empty((n, 1), np.int32)):
        with pytest.raises(UsageError):
            network.predict(data, wrong)


SMALL = chains.Chain([Convolution(7, 5), Tanh(), MaxPool(), Flatten(), Dense(30), Tanh(), Dense(10)], (1, 12, 12))


def small(seed):
    """Return weights and pixels for the network SMALL, and its scores in float64."""
    weights, data = SMALL.weights(seed, pixels=True), SMALL.items(9, seed=seed)
    return weights, data, reference.forward(SMALL.layers, weights, data)


def test_uint8_and_float32_data_in_mxnets_graph(mx):
    arrays, data, wanted = small(4)
    fused = SMALL.mxnet(mx, "custom").optimize_for("fashion_infer")
    for dtype in (np.uint8, np.float32):
        assert error(run(bound(mx, fused, arrays, data, dtype)), wanted) < TOLERANCE


def test_changed_weights_are_used(mx):
    arrays, data, wanted = small(5)
    executor = bound(mx, SMALL.mxnet(mx, "custom").optimize_for("fashion_infer"), arrays, data)
    assert error(run(executor), wanted) < TOLERANCE
    rng = np.random.default_rng(6)
    for name in arrays:
        arrays[name] = arrays[name] + rng.standard_normal(arrays[name].shape).astype(np.float32) / 100
        executor.arg_dict[name][:] = arrays[name]
        wanted = reference.forward(SMALL.layers, arrays, data)
        assert error(run(executor), wanted) < TOLERANCE


def test_several_networks_in_one_process_and_in_threads(mx):
    cases = [small(seed) for seed in (7, 8, 9)]
    fused = SMALL.mxnet(mx, "custom").optimize_for("fashion_infer")
    executors = [bound(mx, fused, arrays, data) for arrays, data, _ in cases]
    outside = [SMALL.fused(arrays) for arrays, _, _ in cases]
    for executor, (_, _, wanted) in zip(executors, cases):
        assert error(run(executor), wanted) < TOLERANCE

    def worst(network, case):
        return max(error(network.forward(case[1]), case[2]) for _ in range(50))

    with ThreadPoolExecutor(6) as pool:
        assert max(pool.map(worst, outside * 2, cases * 2)) < TOLERANCE


def test_no_memory_growth(mx):
    arrays, data, _ = small(11)
    data = np.repeat(data, 100, axis=0)
    executor = bound(mx, SMALL.mxnet(mx, "custom").optimize_for("fashion_infer"), arrays, data)

    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    for _ in range(20):
        run(executor)
    before = resident()
    for _ in range(200):
        run(executor)
    op_times.drain()
    assert resident() - before < 4 << 20


def test_op_times_of_the_stages():
    arrays, data, _ = small(12)
    network = SMALL.fused(arrays)
    op_times.drain()
    network.forward(data)
    assert not op_times.drain()
    network.forward(data, layer_times=True)
    records = op_times.drain()
    # The stages are convolution0 to pooling0, flatten0 to activation1, and fullyconnected1. Nodes are numbered together
    # with variables.
    assert [(r.first_node, r.last_node) for r in records] == [(2, 4), (5, 9), (12, 12)]
    assert [(r.first_node, r.last_node) for r in records] == [(s.first_node, s.last_node) for s in network.stages]
    assert [r.shape for r in records] == [(9, 1, 12, 12, 7, 5), (9, 112, 1, 1, 30, 1), (9, 30, 1, 1, 10, 1)]
    assert all(r.seconds > 0 and r.kernel == "fused" for r in records)
