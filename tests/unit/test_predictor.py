"""Networks bound and run: against MXNet's own operators and NumPy, with all that can fail to fit."""

import json

import numpy as np
import pytest
import reference

from fashion_infer import predictor
from fashion_infer.checkpoints import checkpoint
from fashion_infer.errors import CheckpointError, DeviceError, UsageError
from fashion_infer.graph import network


def random_checkpoint(edition="fa2017", operator="custom", seed=0):
    """The edition's network with random weights of a size that keeps tanh out of saturation."""
    from fashion_infer import _mxnet
    from fashion_infer.checkpoints import editions

    mx = _mxnet.load()
    symbol = network.build(edition, operator)
    side = editions.get(edition).input_size
    loaded = mx.sym.load_json(symbol)
    shapes = dict(zip(loaded.list_arguments(), loaded.infer_shape(data=(1, 1, side, side))[0]))
    rng = np.random.default_rng(seed)
    weights = {
        name: (rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)
        for name, shape in shapes.items()
        if name not in ("data", "softmax_label")
    }
    for name in weights:
        if name in ("new0_weight", "convolution0_weight"):
            weights[name] /= 100  # pixels go up to 255
    return checkpoint.Checkpoint(symbol, weights, {"edition": edition})


def forward64(weights, images):
    """The fa2017 network in float64, without our code."""
    x = np.tanh(reference.convolve(images, weights["new0_weight"]))
    b, m, h, w = x.shape
    x = x.reshape(b, m, h // 2, 2, w // 2, 2).max(axis=(3, 5)).reshape(b, -1)
    x = np.tanh(x @ weights["fullyconnected0_weight"].T.astype(np.float64) + weights["fullyconnected0_bias"])
    x = x @ weights["fullyconnected1_weight"].T.astype(np.float64) + weights["fullyconnected1_bias"]
    x = np.exp(x - x.max(axis=1, keepdims=True))
    return x / x.sum(axis=1, keepdims=True)


@pytest.fixture(scope="module")
def images():
    return reference.pixels(np.random.default_rng(9), (23, 1, 28, 28))


@pytest.fixture(scope="module")
def net():
    return random_checkpoint()


@pytest.mark.parametrize("kernel", ["auto", "naive", "shifted"])
def test_against_float64(net, images, kernel):
    scores, times = predictor.Predictor(net, kernel=kernel).predict(images)
    assert scores.dtype == np.float32 and scores.shape == (23, 10)
    assert np.abs(scores - forward64(net.weights, images)).max() < 2e-6
    assert times[0].kernel == ("shifted" if kernel == "auto" else kernel)


def test_builtin_operator_agrees(net, images):
    own, _ = predictor.Predictor(net).predict(images)
    theirs, times = predictor.Predictor(net, operator="builtin").predict(images)
    assert np.abs(own - theirs).max() < 2e-6
    assert next(t.operator for t in times) == "Convolution" and not any(t.custom for t in times)


@pytest.mark.parametrize("batch_size", [1, 7, 23, 100])
def test_slices_that_do_not_divide_n(net, images, batch_size):
    whole, _ = predictor.Predictor(net).predict(images)
    sliced, times = predictor.Predictor(net, batch_size=batch_size).predict(images)
    assert np.abs(whole - sliced).max() < 1e-6
    assert all(t.seconds > 0 for t in times)


def test_every_layer_has_a_time(net, images):
    _, times = predictor.Predictor(net, batch_size=10).predict(images)
    assert [(t.name, t.operator) for t in times] == [
        ("new0", "New"),
        ("activation0", "Activation"),
        ("pooling0", "Pooling"),
        ("flatten0", "Flatten"),
        ("fullyconnected0", "FullyConnected"),
        ("activation1", "Activation"),
        ("fullyconnected1", "FullyConnected"),
        ("softmax", "SoftmaxOutput"),
    ]
    assert times[0].custom and times[0].kernel and not times[1].custom and times[1].kernel is None
    assert all(0 < t.seconds < 10 for t in times)


@pytest.mark.parametrize("edition, names", [("sp2018", ["new0", "new1"]), ("fa2019", ["new0", "new1"])])
def test_two_convolution_layers(edition, names):
    from fashion_infer.checkpoints import editions

    side = editions.get(edition).input_size
    x = reference.pixels(np.random.default_rng(1), (3, 1, side, side))
    custom = predictor.Predictor(random_checkpoint(edition), (1, side, side))
    assert custom.custom_layers == names
    builtin = predictor.Predictor(random_checkpoint(edition), (1, side, side), operator="builtin")
    assert np.abs(custom.predict(x)[0] - builtin.predict(x)[0]).max() < 2e-6


def test_two_predictors_in_one_process(net, images):
    other = random_checkpoint(seed=5)
    first, second = predictor.Predictor(net), predictor.Predictor(other)
    expected = [forward64(c.weights, images) for c in (net, other)]
    for _ in range(2):
        for p, e in zip((first, second), expected):
            assert np.abs(p.predict(images)[0] - e).max() < 2e-6


def test_images_of_another_shape(net, images):
    bound = predictor.Predictor(net)
    with pytest.raises(UsageError, match="images must have shape"):
        bound.predict(images[:, :, :20])
    with pytest.raises(UsageError, match="images must have shape"):
        bound.predict(images[:0])
    with pytest.raises(UsageError, match="batch size must be at least 1"):
        predictor.Predictor(net, batch_size=0)


def broken(net, **weights):
    merged = {k: v for k, v in dict(net.weights, **weights).items() if v is not None}
    with pytest.raises(CheckpointError) as error:
        predictor.Predictor(net._replace(weights=merged))
    return str(error.value)


def test_weights_that_do_not_fit(net):
    assert "lacks fullyconnected0_bias, which the network needs with shape (500,)" in broken(
        net, fullyconnected0_bias=None
    )
    text = broken(net, new0_weight=np.ones((50, 1, 3, 3), np.float32))
    assert text == "weight new0_weight has shape (50, 1, 3, 3) where the network needs (50, 1, 5, 5)"


def test_networks_that_do_not_fit(net, images):
    with pytest.raises(CheckpointError, match="does not fit the images: .*New 'new0'.*larger than the image"):
        predictor.Predictor(net, input_shape=(1, 4, 4))
    with pytest.raises(CheckpointError, match="no input called 'data'"):
        predictor.Predictor(net._replace(symbol=net.symbol.replace('"data"', '"pictures"')))
    with pytest.raises(CheckpointError, match="MXNet cannot build the network"):
        predictor.Predictor(net._replace(symbol=net.symbol.replace('"SoftmaxOutput"', '"NoSuchOperator"')))


def test_unknown_kernel(net):
    with pytest.raises(UsageError, match="unknown cpu kernel 'quick'; known: auto, naive, shifted"):
        predictor.Predictor(net, kernel="quick")


def test_a_failing_operator_is_one_line(net, images, monkeypatch):
    monkeypatch.setattr(predictor.operators, "check_kernel", lambda *a: None)
    with pytest.raises(DeviceError) as error:
        predictor.Predictor(net, kernel="quick").predict(images)
    assert str(error.value).startswith("New 'new0': unknown CPU kernel 'quick'")


def test_ctrl_c_within_a_layer_reaches_the_caller(net, images, monkeypatch):
    bound = predictor.Predictor(net)

    class Interrupting(predictor._Stopwatch):
        @property
        def _mx(self):
            raise KeyboardInterrupt

        @_mx.setter
        def _mx(self, value):
            pass

    monkeypatch.setattr(predictor, "_Stopwatch", Interrupting)
    with pytest.raises(KeyboardInterrupt):
        bound.predict(images)


@pytest.mark.parametrize(
    "change, words",
    [
        ({"stride": "(2, 2)"}, "has stride=(2, 2)"),
        ({"pad": "(1, 1)"}, "has pad=(1, 1)"),
        ({"num_group": "2"}, "has num_group=2"),
        ({"dilate": "(2, 1)"}, "has dilate"),
        ({"no_bias": "False"}, "has a bias"),
    ],
)
def test_convolutions_that_new_cannot_do(change, words):
    graph = json.loads(network.build("fa2017", "builtin"))
    node = next(n for n in graph["nodes"] if n["op"] == "Convolution")
    network.attributes(node).update(change)
    with pytest.raises(CheckpointError) as error:
        network.with_operator(graph, "custom")
    assert words in str(error.value) and "--op builtin" in str(error.value)


def test_operators_swapped_and_back():
    custom, builtin = (json.loads(network.build("fa2019", op)) for op in ("custom", "builtin"))
    swapped = network.with_operator(custom, "builtin")
    assert network.convolution_layers(swapped) == ["new0", "new1"]
    assert {n["op"] for n in swapped["nodes"]} == {n["op"] for n in builtin["nodes"]}
    back = network.with_operator(builtin, "custom")
    assert {n["op"] for n in back["nodes"]} == {n["op"] for n in custom["nodes"]}


def test_attributes_of_every_format():
    for key in ("attrs", "attr", "param"):
        assert network.attributes({key: {"kernel": "5"}}) == {"kernel": "5"}
    node = {}
    network.attributes(node)["x"] = "1"
    assert node == {"attrs": {"x": "1"}}


def test_a_cold_gpu_runs_each_size_of_slice_once_unmeasured(net, images, monkeypatch):
    """On the CPU, told that it is cold: the results and the number of logged passes are those of a warm one."""
    bound = predictor.Predictor(net, mode="fused", batch_size=10)
    bound._cold, sizes, forward = True, [], predictor.Predictor._forward

    def counted(self, part, watch):
        sizes.append(len(part))
        return forward(self, part, watch)

    monkeypatch.setattr(predictor.Predictor, "_forward", counted)
    scores, times = bound.predict(images)
    assert sizes == [10, 10, 10, 3, 3]  # 23 images in slices of 10, the first of each size twice
    assert len(times[0].log) == 3
    bound.predict(images)
    assert sizes[5:] == [10, 10, 3]
    assert np.abs(scores - forward64(net.weights, images)).max() < 2e-6
