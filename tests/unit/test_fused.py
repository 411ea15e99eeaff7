"""The fused mode: chains of layers as stages, within MXNet's graph and outside it, against float64 and MXNet's own."""

import json
import threading

import chains
import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st

from fashion_infer import _mxnet
from fashion_infer.errors import CheckpointError, UsageError
from fashion_infer.library import nets, operators

# float32 sums of up to 2,880 terms, one layer on another: 2.2e-6 was the worst of 2,500 random chains, 8e-7 the 99th
# percentile. The course's networks are held to 2e-6 of their range in tests/pipeline.
TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def mx():
    operators.load_into_mxnet()
    return _mxnet.load()


@pytest.fixture(autouse=True)
def default_threads():
    yield
    operators.set_threads(None)


def draw_items(rng, n, shape, pixels):
    if pixels:
        return reference.pixels(rng, (n, *shape))
    return rng.standard_normal((n, *shape)).astype(np.float32)


def bound(mx, symbol, arrays, data, dtype=None):
    """An executor of a symbol on the CPU."""
    arguments = {name: mx.nd.array(values) for name, values in arrays if name in symbol.list_arguments()}
    arguments["data"] = mx.nd.array(data, dtype=dtype or data.dtype)
    if "softmax_label" in symbol.list_arguments():
        arguments["softmax_label"] = mx.nd.zeros((len(data),))
    with _mxnet.quiet():
        return symbol.bind(mx.cpu(), args=arguments, grad_req="null")


def run(executor):
    return executor.forward(is_train=False)[0].asnumpy()


def error(got, wanted):
    """The largest error over the largest magnitude, but at least over a half: sums here are of order 1, and a few of
    them may cancel to nearly nothing."""
    return np.abs(got - wanted).max() / max(np.abs(wanted).max(), 0.5)


def operators_of(symbol):
    return [node["op"] for node in json.loads(symbol.tojson())["nodes"] if node["op"] != "null"]


# ---- any chain -------------------------------------------------------------------------------


@given(chains.chains(), st.integers(1, 40), st.integers(1, 3), st.booleans(), st.integers(0, 2**32 - 1))
@settings(max_examples=120, deadline=None)
def test_random_chains_against_float64(chain, n, threads, pixels, seed):
    shape, layers = chain
    rng = np.random.default_rng(seed)
    arrays = chains.weights(shape, layers, rng, pixels)
    data = draw_items(rng, n, shape, pixels)
    mx = _mxnet.load()
    operators.set_threads(threads)
    net = nets.Net(chains.symbol(mx, layers).tojson(), dict(arrays), shape)
    wanted = reference.forward(layers, [values for _, values in arrays], data)
    scores = net.forward(data)
    assert error(scores, wanted.reshape(n, -1)) < TOLERANCE
    assert not np.isnan(scores).any()
    # An item's result does not depend on its neighbours, the slice, or the number of threads.
    operators.set_threads(1)
    np.testing.assert_array_equal(net.forward(data[n // 2 :]), scores[n // 2 :])


@given(chains.chains(), st.integers(1, 5), st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_random_chains_in_the_graph(chain, n, seed):
    shape, layers = chain
    operators.load_into_mxnet()
    mx, rng = _mxnet.load(), np.random.default_rng(seed)
    arrays = chains.weights(shape, layers, rng)
    data = draw_items(rng, n, shape, pixels=False)
    plain = chains.symbol(mx, layers)
    fused = plain.optimize_for("fashion_infer")
    assert operators_of(fused) == ["_fashion_infer_net"]
    theirs, ours = run(bound(mx, plain, arrays, data)), run(bound(mx, fused, arrays, data))
    assert ours.shape == theirs.shape
    assert error(ours, theirs) < TOLERANCE


def test_tanh_is_within_4_ulp_of_the_true_value():
    """Every 500th float from the smallest subnormal to infinity, both signs; all 2^32 gave 2.42 ulp at most."""
    bits = np.arange(0, 0x7F800001, 499, dtype=np.uint32)
    x = np.concatenate([bits.view(np.float32), np.float32([9.01, 9.02, 9.03, 88.7, np.inf])])
    x = np.concatenate([x, -x])
    net = nets.Net(_tanh_alone(), {}, (x.size,))
    y, wanted = net.forward(x[np.newaxis])[0], np.tanh(x.astype(np.float64))
    ulp = np.spacing(np.abs(wanted).astype(np.float32)).astype(np.float64)
    assert (np.abs(y - wanted) / ulp).max() <= 4
    np.testing.assert_array_equal(np.signbit(y), np.signbit(x))
    assert np.isnan(net.forward(np.full((1, x.size), np.nan, np.float32))).all()


def _tanh_alone():
    nodes = [{"op": "null", "name": "data", "inputs": []}]
    nodes.append({"op": "Activation", "name": "t", "attrs": {"act_type": "tanh"}, "inputs": [[0, 0, 0]]})
    return json.dumps({"nodes": nodes, "arg_nodes": [0], "heads": [[1, 0, 0]]})


def test_stages_of_the_course(mx):
    layers = [("convolution", 5, 50), ("tanh",), ("pool",), ("flatten",), ("dense", 500, True), ("tanh",)]
    layers += [("dense", 10, True), ("softmax",)]
    arrays = dict(chains.weights((1, 28, 28), layers, np.random.default_rng(0)))
    stages = nets.Net(chains.symbol(mx, layers).tojson(), arrays).stages
    assert [(s.name, s.kind) for s in stages] == [
        ("layer0+tanh1+pool2", "convolution"),
        ("flatten3+layer1+tanh5", "dense"),
        ("layer2", "dense"),
        ("softmax7", "softmax"),
    ]
    assert [s.operations for s in stages] == [2 * 50 * 24 * 24 * 25, 2 * 7200 * 500, 2 * 500 * 10, 0]


# ---- what cannot be fused --------------------------------------------------------------------


@pytest.mark.parametrize(
    "layer, why",
    [
        (lambda mx, x: mx.sym.Convolution(x, no_bias=True, kernel=(3, 3), num_filter=2, pad=(1, 1)), "pads"),
        (lambda mx, x: mx.sym.Convolution(x, no_bias=True, kernel=(3, 3), num_filter=2, stride=(2, 2)), "stride"),
        (lambda mx, x: mx.sym.Convolution(x, no_bias=True, kernel=(3, 3), num_filter=2, dilate=(2, 2)), "dilation"),
        (lambda mx, x: mx.sym.Convolution(x, no_bias=True, kernel=(3, 2), num_filter=2), "square"),
        (lambda mx, x: mx.sym.Convolution(x, no_bias=True, kernel=(3, 3), num_filter=2, num_group=2), "groups"),
        (lambda mx, x: mx.sym.Convolution(x, kernel=(3, 3), num_filter=2), "bias"),
        (lambda mx, x: mx.sym.Activation(x, act_type="relu"), "tanh"),
        (lambda mx, x: mx.sym.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="avg"), "max"),
        (lambda mx, x: mx.sym.Pooling(x, kernel=(3, 3), stride=(2, 2), pool_type="max"), "2x2"),
        (lambda mx, x: mx.sym.Pooling(x, kernel=(2, 2), pool_type="max"), "2x2"),
        (
            lambda mx, x: mx.sym.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="max", pooling_convention="full"),
            "valid",
        ),
        (lambda mx, x: mx.sym.Pooling(x, kernel=(2, 2), pool_type="max", global_pool=True), "globally"),
        (lambda mx, x: mx.sym.FullyConnected(x, num_hidden=3, flatten=False), "flatten"),
        (lambda mx, x: mx.sym.softmax(x), "flat"),
        (lambda mx, x: mx.sym.softmax(mx.sym.Flatten(x), temperature=2.0), "temperature"),
        (lambda mx, x: mx.sym.exp(x), "no exp"),
    ],
)
def test_a_layer_that_cannot_be_fused_stays_with_mxnet(mx, layer, why):
    """It stands between two that can be, and the result is MXNet's."""
    rng = np.random.default_rng(1)
    first = chains.symbol(mx, [("convolution", 3, 4), ("tanh",)])
    odd = layer(mx, first)
    whole = mx.sym.FullyConnected(odd, num_hidden=5, name="last")
    data = draw_items(rng, 3, (2, 13, 11), pixels=False)
    shapes = dict(zip(whole.list_arguments(), whole.infer_shape(data=data.shape)[0]))
    arrays = [(name, rng.standard_normal(s).astype(np.float32) / 4) for name, s in shapes.items() if name != "data"]
    fused = whole.optimize_for("fashion_infer")
    found = operators_of(fused)
    assert found.count("_fashion_infer_net") == 2
    assert json.loads(odd.tojson())["nodes"][-1]["op"] in found
    assert error(run(bound(mx, fused, arrays, data)), run(bound(mx, whole, arrays, data))) < TOLERANCE
    # Outside MXNet nobody else can run it: the planner names the node and the reason.
    with pytest.raises(UsageError, match=why):
        nets.Net(whole.tojson(), dict(arrays), (2, 13, 11))


def test_branches_are_left_apart(mx):
    """A node with two readers, or one whose value is asked for as well, stays with MXNet; both branches are chains."""
    rng = np.random.default_rng(2)
    stem = chains.symbol(mx, [("convolution", 3, 4)])
    left = mx.sym.FullyConnected(mx.sym.tanh(stem), num_hidden=6, name="left")
    right = mx.sym.FullyConnected(stem, num_hidden=6, name="right")
    whole = mx.sym.Group([left + right, stem])
    data = draw_items(rng, 4, (1, 9, 9), pixels=False)
    shapes = dict(zip(whole.list_arguments(), whole.infer_shape(data=data.shape)[0]))
    arrays = [(name, rng.standard_normal(s).astype(np.float32)) for name, s in shapes.items() if name != "data"]
    fused = whole.optimize_for("fashion_infer")
    assert sorted(operators_of(fused)) == ["Convolution", "_fashion_infer_net", "_fashion_infer_net", "elemwise_add"]
    ours, theirs = (bound(mx, s, arrays, data).forward(is_train=False) for s in (fused, whole))
    for mine, other in zip(ours, theirs):
        assert error(mine.asnumpy(), other.asnumpy()) < TOLERANCE


def test_a_weight_that_is_computed(mx):
    """FullyConnected whose weight comes out of a layer that could be fused: it is an input of the stage."""
    rng = np.random.default_rng(3)
    weight = mx.sym.tanh(mx.sym.Variable("raw"))
    whole = mx.sym.FullyConnected(mx.sym.Variable("data"), weight, no_bias=True, num_hidden=4, name="dense")
    data, raw = draw_items(rng, 5, (7,), pixels=False), rng.standard_normal((4, 7)).astype(np.float32)
    fused = whole.optimize_for("fashion_infer")
    got = run(bound(mx, fused, [("raw", raw)], data))
    assert error(got, data.astype(np.float64) @ np.tanh(raw.astype(np.float64)).T) < TOLERANCE


def test_nothing_worth_fusing(mx):
    symbol = mx.sym.tanh(mx.sym.Variable("data")).optimize_for("fashion_infer")
    assert operators_of(symbol) == ["tanh"]


def test_wrong_weights_and_shapes(mx):
    layers = [("convolution", 3, 4), ("dense", 5, True)]
    symbol = chains.symbol(mx, layers).tojson()
    arrays = dict(chains.weights((1, 8, 8), layers, np.random.default_rng(0)))
    with pytest.raises(CheckpointError, match="layer1_bias"):
        nets.Net(symbol, {k: v for k, v in arrays.items() if k != "layer1_bias"}, (1, 8, 8))
    with pytest.raises(CheckpointError, match="layer0_weight"):
        nets.Net(symbol, {**arrays, "layer0_weight": arrays["layer0_weight"][:2]}, (1, 8, 8))
    with pytest.raises(UsageError, match="larger than the image"):
        nets.Net(symbol, arrays, (1, 2, 2))
    with pytest.raises(UsageError, match="for the GPU"):
        nets.Net(symbol, arrays, (1, 8, 8), precision="fp16")
    with pytest.raises(UsageError, match="precision"):
        nets.Net(symbol, arrays, (1, 8, 8), precision="int8")
    net = nets.Net(symbol, arrays, (1, 8, 8))
    with pytest.raises(UsageError, match="shape"):
        net.forward(np.zeros((3, 1, 9, 8), np.float32))
    with pytest.raises(UsageError, match="host memory"):
        net.launch(1, net._handle.value, np.float32, net._handle.value, 0)


# ---- state -----------------------------------------------------------------------------------


def small(mx, seed):
    """A small network with weights and pixels, and its scores in float64."""
    rng = np.random.default_rng(seed)
    shape = (1, 12, 12)
    layers = [
        ("convolution", 5, 7),
        ("tanh",),
        ("pool",),
        ("flatten",),
        ("dense", 30, True),
        ("tanh",),
        ("dense", 10, True),
    ]
    arrays = chains.weights(shape, layers, rng, pixels=True)
    data = reference.pixels(rng, (9, *shape))
    return layers, arrays, data, reference.forward(layers, [values for _, values in arrays], data)


def test_pixels_and_floats_in_the_graph(mx):
    layers, arrays, data, wanted = small(mx, 4)
    fused = chains.symbol(mx, layers, convolution="New").optimize_for("fashion_infer")
    for dtype in (np.uint8, np.float32):
        assert error(run(bound(mx, fused, arrays, data, dtype)), wanted) < TOLERANCE


def test_weights_that_change_are_seen(mx):
    layers, arrays, data, wanted = small(mx, 5)
    executor = bound(mx, chains.symbol(mx, layers, "New").optimize_for("fashion_infer"), arrays, data)
    assert error(run(executor), wanted) < TOLERANCE
    rng = np.random.default_rng(6)
    for name in [name for name, _ in arrays]:
        changed = dict(arrays)
        changed[name] = changed[name] + rng.standard_normal(changed[name].shape).astype(np.float32) / 100
        arrays = list(changed.items())
        executor.arg_dict[name][:] = changed[name]
        wanted = reference.forward(layers, [values for _, values in arrays], data)
        assert error(run(executor), wanted) < TOLERANCE


def test_two_networks_in_one_process_and_threads(mx):
    """Each keeps its own weights, also when they run at the same time."""
    cases = [small(mx, seed) for seed in (7, 8, 9)]
    executors = [
        bound(mx, chains.symbol(mx, layers, "New").optimize_for("fashion_infer"), a, d) for layers, a, d, _ in cases
    ]
    outside = [nets.Net(chains.symbol(mx, layers).tojson(), dict(a), d.shape[1:]) for layers, a, d, _ in cases]
    for executor, (_, _, _, wanted) in zip(executors, cases):
        assert error(run(executor), wanted) < TOLERANCE
    failures = []

    def work(net, data, wanted):
        for _ in range(50):
            if not error(net.forward(data), wanted) < TOLERANCE:
                failures.append(net)

    workers = [threading.Thread(target=work, args=(net, d, w)) for net, (_, _, d, w) in zip(outside * 2, cases * 2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures


def test_module_api(mx):
    layers, arrays, data, wanted = small(mx, 10)
    fused = chains.symbol(mx, layers, "New").optimize_for("fashion_infer")
    with _mxnet.quiet():
        module = mx.mod.Module(fused, data_names=["data"], label_names=None, context=mx.cpu())
        module.bind(data_shapes=[mx.io.DataDesc("data", data.shape, np.uint8)], for_training=False)
    module.set_params({name: mx.nd.array(values) for name, values in arrays}, {})
    module.forward(mx.io.DataBatch([mx.nd.array(data, dtype=np.uint8)]), is_train=False)
    assert error(module.get_outputs()[0].asnumpy(), wanted) < TOLERANCE


def test_no_memory_growth(mx):
    layers, arrays, data, _ = small(mx, 11)
    data = np.repeat(data, 100, axis=0)
    executor = bound(mx, chains.symbol(mx, layers, "New").optimize_for("fashion_infer"), arrays, data)

    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    for _ in range(20):
        run(executor)
    before = resident()
    for _ in range(200):
        run(executor)
    operators.drain_log()
    assert resident() - before < 4 << 20


def test_op_times_of_the_stages(mx):
    layers, arrays, data, _ = small(mx, 12)
    net = nets.Net(chains.symbol(mx, layers).tojson(), dict(arrays), data.shape[1:])
    operators.drain_log()
    net.forward(data)
    assert not operators.drain_log()
    net.forward(data, layer_times=True)
    records = operators.drain_log()
    assert [r.layer for r in records] == ["layer0+tanh1+pool2", "flatten3+layer1+tanh5", "layer2"]
    assert [r.shape for r in records] == [(9, 1, 12, 12, 7, 5), (9, 112, 1, 1, 30, 1), (9, 30, 1, 1, 10, 1)]
    assert all(r.seconds > 0 and r.kernel == "fused" for r in records)
