"""Networks that were exported from Gluon give the scores that Gluon gives."""

import json
import warnings

import numpy as np
import pytest
import reference

from fashion_infer import _mxnet
from fashion_infer._mxnet import plugin
from fashion_infer.checkpoints import hdf5, load, mxnet_pair
from fashion_infer.errors import CheckpointError, UsageError
from fashion_infer.graph import input_size, operators, symbol
from fashion_infer.inference import model
from fashion_infer.inference.predictor import Predictor
from fashion_infer.request import Request

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    plugin.load_operators()
    mx = _mxnet.load()
nn = mx.gluon.nn
SHAPE, CLASSES = (1, 28, 28), 10


class Branches(mx.gluon.HybridBlock):
    """A block whose output is `join`, a function of MXNet's F, of the block's input and the output of `body`."""

    def __init__(self, join, *body):
        super().__init__()
        self._join = join
        with self.name_scope():
            self.body = nn.HybridSequential()
            self.body.add(*body)

    def hybrid_forward(self, F, x):
        return self._join(F, x, self.body(x))


def gate(F, x, y):
    """Multiply each channel of x by the sigmoid of the mean of that channel in y, as in squeeze and excitation."""
    return F.broadcast_mul(x, F.sigmoid(F.mean(y, axis=(2, 3), keepdims=True)))


def border(F, x):
    return F.Pad(x, mode="reflect", pad_width=(0, 0, 0, 0, 1, 1, 1, 1))


def network(*layers):
    return [nn.Conv2D(8, 3, use_bias=False), *layers, nn.Flatten(), nn.Dense(CLASSES)]


def same(act=None):
    return nn.Conv2D(8, 3, padding=1, activation=act)


NETWORKS = {
    "batch-norm": lambda: network(nn.BatchNorm(), nn.Activation("relu"), nn.MaxPool2D(), same(), nn.BatchNorm()),
    "batch-norm-first": lambda: [nn.BatchNorm(scale=False), *network(nn.BatchNorm(center=False))],
    "batch-norm-dense": lambda: network(nn.Flatten(), nn.Dense(16), nn.BatchNorm(), nn.Activation("tanh")),
    "leaky": lambda: network(
        nn.LeakyReLU(0.1), nn.PReLU(), nn.PReLU(in_channels=8), nn.ELU(), nn.SELU(), nn.GELU(), nn.Swish()
    ),
    "gelu": lambda: network(nn.GELU()),
    "rrelu": lambda: network(nn.HybridLambda(lambda F, x: F.LeakyReLU(x, act_type="rrelu")[0])),
    "pools": lambda: network(nn.AvgPool2D(2, count_include_pad=False, padding=1), nn.MaxPool2D(3, 2, ceil_mode=True)),
    "global": lambda: network(same("relu"), nn.GlobalAvgPool2D()),
    "global-max": lambda: network(same("relu"), nn.GlobalMaxPool2D(), nn.Dropout(0.5)),
    "residual": lambda: network(Branches(lambda F, x, y: F.relu(x + y), same("relu"), same(), nn.BatchNorm())),
    "product": lambda: network(Branches(lambda F, x, y: x * y - y / 2 + (3 - x), same("sigmoid"))),
    "concat": lambda: network(Branches(lambda F, x, y: F.concat(x, y, x, dim=1), same("relu"))),
    "gate": lambda: network(Branches(gate, same())),
    "lrn": lambda: network(nn.HybridLambda(lambda F, x: F.LRN(x, nsize=5, alpha=1e-3)), nn.MaxPool2D()),
    "clip": lambda: network(nn.HybridLambda(lambda F, x: F.clip(x, 0, 6)), nn.HybridLambda("softsign")),
    "norms": lambda: network(nn.InstanceNorm(), nn.GroupNorm(4), nn.Flatten(), nn.LayerNorm()),
    "reshape": lambda: network(nn.HybridLambda(lambda F, x: F.reshape(x, shape=(0, -1)))),
    "border": lambda: network(nn.HybridLambda(border), same("relu")),
    "scores": lambda: [*network(), nn.HybridLambda("softmax")],
}


@pytest.fixture(scope="module")
def images():
    return reference.pixels(np.random.default_rng(3), (6, *SHAPE)).astype(np.uint8)


@pytest.fixture(params=NETWORKS)
def exported(request, tmp_path, images):
    """The prefix of an exported network with random weights and statistics, and Gluon's scores of the images."""
    mx.random.seed(5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        net = nn.HybridSequential()
        net.add(*NETWORKS[request.param]())
        net.initialize(mx.init.Xavier())
        net.hybridize()
        data = mx.nd.array(images)
        if "norm" in request.param:  # make means and variances differ from their initial values
            with mx.autograd.record():
                net(data)
        wanted = net(data).asnumpy()
        prefix = str(tmp_path / "net")
        net.export(prefix, 0)
    return prefix, wanted


def test_both_modes_give_gluons_scores(exported, images, tmp_path):
    prefix, wanted = exported
    found = load.load(prefix, 0)
    graph = symbol.parse(found.symbol, "it")
    assert input_size.infer(graph, found.weights, [28]) == 28
    for operator in (None, "builtin"):
        for mode in ("operator", "fused"):
            got = Predictor(found, SHAPE, mode=mode, operator=operator).predict(images)[0]
            np.testing.assert_allclose(got, wanted, rtol=2e-4, atol=2e-5 * np.abs(wanted).max())
    again = str(tmp_path / "again")
    hdf5.save(f"{again}.h5", found)
    mxnet_pair.save(again, found)
    for other in (load.load(f"{again}.h5"), load.load(again)):
        np.testing.assert_array_equal(
            Predictor(other, SHAPE).predict(images)[0], Predictor(found, SHAPE).predict(images)[0]
        )
    names = set(mx.nd.load(f"{prefix}-0000.params"))
    assert {name for name in mx.nd.load(f"{again}-0001.params")} == names


NORMALISED = {"scale": 255.0, "mean": 0.286, "std": 0.353}


@pytest.fixture
def normalised(tmp_path, images):
    """The prefix of an exported network for normalised pixels, and Gluon's scores of the images."""
    mx.random.seed(6)
    net = nn.HybridSequential()
    net.add(*network(nn.BatchNorm(), nn.Activation("relu")))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    steps = mx.gluon.data.vision.transforms
    prepare = steps.Compose([steps.ToTensor(), steps.Normalize(0.286, 0.353)])
    data = prepare(mx.nd.array(images.transpose(0, 2, 3, 1), dtype="uint8"))
    wanted = net(data).asnumpy()
    net.export(str(tmp_path / "net"), 1)
    return str(tmp_path / "net"), wanted


@pytest.mark.parametrize("mode", ["operator", "fused"])
def test_normalised_pixels(normalised, images, mode):
    prefix, wanted = normalised
    loaded = model.load(Request(checkpoint=prefix, **NORMALISED))
    assert loaded.input_size == 28
    got = Predictor(loaded.checkpoint, SHAPE, mode=mode).predict(images)[0]
    np.testing.assert_allclose(got, wanted, rtol=2e-4, atol=2e-5)
    plain = model.load(Request(checkpoint=prefix)).checkpoint
    assert np.abs(Predictor(plain, SHAPE, mode=mode).predict(images)[0] - wanted).max() > 1


def test_normalisation_is_saved_by_import(normalised, tmp_path, invoke):
    prefix, _ = normalised
    given = [word for name, value in NORMALISED.items() for word in (f"--{name}", value)]
    run = ["run", "--n", 20, "--data", "synthetic", "--backend", "cpu"]
    kept, both = str(tmp_path / "kept.h5"), {}
    assert invoke("models", "import", prefix, *given, "--to", kept)[0] == 0
    for name, words in (("given", [prefix, *given]), ("kept", [kept]), ("other", [kept, "--scale", 1])):
        code, out, _ = invoke(*run, "--checkpoint", *words, "--json")
        assert code == 0
        both[name] = json.loads(out)
    assert both["given"]["normalisation"] == both["kept"]["normalisation"] == NORMALISED
    assert both["given"]["predictions_sha256"] == both["kept"]["predictions_sha256"]
    assert both["other"]["normalisation"] == {**NORMALISED, "scale": 1.0}


@pytest.mark.parametrize("options", [{"std": 0.0}, {"scale": -1.0}, {"mean": float("nan")}, {"scale": "255"}])
def test_invalid_normalisations(options):
    with pytest.raises(UsageError):
        Request(checkpoint="net", **options).check()
    with pytest.raises(UsageError):
        Request(scale=255.0).check()


@pytest.mark.parametrize("value", [0.0, "x", [1.0], True])
def test_a_damaged_normalisation(normalised, tmp_path, value):
    path = str(tmp_path / "odd.h5")
    hdf5.save(path, load.load(normalised[0])._replace(attributes={"std": value}))
    with pytest.raises(CheckpointError):
        model.load(Request(checkpoint=path))


@pytest.mark.parametrize("place, source, output", [(1, 0, 0), (2, 0, 0), (4, 0, 0), (3, 0, 1), (3, 1, 1), (3, 2, 1)])
def test_a_batch_norm_that_mxnet_would_not_survive(normalised, place, source, output):
    """A computed weight crashes MXNet, and a moving mean that is also another input would be overwritten."""
    graph = symbol.parse(load.load(normalised[0]).symbol, "it")
    norm = next(node for node in graph["nodes"] if node["op"] == "BatchNorm")
    norm["inputs"][place] = [*norm["inputs"][source][:2], output]
    with pytest.raises(CheckpointError):
        operators.check(graph, "it")
