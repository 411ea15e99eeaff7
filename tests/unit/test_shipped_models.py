"""The shipped weights: the contents of the files, and the correctness that NumPy in float64 and MXNet compute.

No prediction is near a tie (see models/README.md), so a correct implementation must have exactly this correctness.
"""

import json

import float64_models
import h5py
import numpy as np
import profiles
import pytest

from fashion_infer import _mxnet
from fashion_infer.checkpoints import editions, hdf5, zoo
from fashion_infer.data import dataset, idx, synthetic
from fashion_infer.data.resize import resize
from fashion_infer.graph.layers import Convolution, Flatten, MaxPool, Relu, Tanh, walk

# Number of images of the built-in set that are tested. The pipeline's tests and `make test-all` use all 10,000.
SYNTHETIC_PART = profiles.pick(2000, 10000)


@pytest.fixture(scope="module", params=profiles.drawn(list(zoo.MODELS), 2))
def name(request):
    return request.param


@pytest.fixture(scope="module")
def model(name):
    return hdf5.load(zoo.get(name).path)


def _edition(name):
    return editions.get(zoo.get(name).edition)


def _shapes(name):
    """Return the shapes of the weights by name, from the edition's layers."""
    prefix = {"custom": "new", "builtin": "convolution"}[zoo.get(name).operator]
    steps = walk(_edition(name).layers, _edition(name).shape, prefix)
    return {key: shape for step in steps for key, shape in step.parameters.items()}


def _kernels(name, weights):
    return iter([weights[key] for key, shape in _shapes(name).items() if len(shape) == 4])


def _features_of(edition):
    """Return the edition's layers before the first dense layer."""
    return edition.layers[: [type(layer) for layer in edition.layers].index(Flatten)]


def _mxnet_predictions(name, weights, images):
    """Return the network's predictions, computed with MXNet's own float32 operators."""
    nd = _mxnet.load().nd
    w = {key: nd.array(value) for key, value in weights.items()}
    edition, parts = _edition(name), []
    for start in range(0, len(images), 100):
        x = nd.array(resize(images[start : start + 100], edition.input_size).astype(np.float32))
        kernels = _kernels(name, w)
        for layer in _features_of(edition):
            if isinstance(layer, Convolution):
                sizes = {"kernel": (layer.kernel_size,) * 2, "num_filter": layer.filters}
                x = nd.Convolution(x, next(kernels), no_bias=True, **sizes)
            elif isinstance(layer, Tanh):
                x = nd.tanh(x)
            elif isinstance(layer, Relu):
                x = nd.relu(x)
            else:
                assert isinstance(layer, MaxPool)
                sizes = {"kernel": (layer.size,) * 2, "stride": (layer.stride or layer.size,) * 2}
                x = nd.Pooling(x, pool_type="max", pooling_convention="full" if layer.full else "valid", **sizes)
        hidden = len(w["fullyconnected0_bias"])
        nonlinear = nd.relu if any(isinstance(layer, Relu) for layer in edition.layers) else nd.tanh
        for index, units in enumerate((hidden, 10)):
            weight, bias = w[f"fullyconnected{index}_weight"], w[f"fullyconnected{index}_bias"]
            x = nd.FullyConnected(nonlinear(x) if index else nd.flatten(x), weight, bias, num_hidden=units)
        parts.append(x.asnumpy().argmax(axis=1))
    return np.concatenate(parts)


def _gap(logits):
    top = np.partition(logits, -2, axis=1)
    return (top[:, -1] - top[:, -2]).min()


def test_the_files_are_small():
    assert sum(model.path.stat().st_size for model in zoo.MODELS.values()) < 6_000_000


def test_shapes_and_values(name, model):
    assert {key: value.shape for key, value in model.weights.items()} == _shapes(name)
    for value in model.weights.values():
        assert value.dtype == np.float32
        assert np.isfinite(value).all()
        assert np.abs(value).max() < 2  # larger weights could amplify rounding errors


def test_dense_weights_are_int8_with_a_scale_per_row(name, model):
    with h5py.File(zoo.get(name).path, "r") as file:
        for key in ("fullyconnected0_weight", "fullyconnected1_weight"):
            steps, scale = file["weights"][key][()], file["scales"][key][()]
            assert steps.dtype == np.int8 and scale.dtype == np.float32
            assert np.all(np.abs(steps.astype(int)).max(axis=1) == 127)  # each row uses the full range
            # The product of an int8 and a float32 has at most 31 bits. It is exact in float64, and then rounded once.
            exact = steps.astype(np.float64) * scale.astype(np.float64)[:, None]
            assert np.array_equal(exact.astype(np.float32), model.weights[key])
        for stored in file["weights"].values():
            # Small arrays are not compressed.
            assert (stored.compression == "gzip") == (stored.size * stored.dtype.itemsize >= 2 << 10)


def test_all_units_and_features_are_connected(name, model):
    """Although the first dense layer has few weights, each of its inputs and units has at least one that is not zero.

    Therefore a wrong value before the layer changes some unit.
    """
    connected = model.weights["fullyconnected0_weight"] != 0
    assert connected.any(axis=0).all() and connected.any(axis=1).all()
    assert connected.mean() == pytest.approx(model.attributes.get("density", 1), rel=0.05)


def test_attributes(name, model):
    facts = model.attributes
    assert facts["edition"] == zoo.get(name).edition
    assert facts["operator"] == zoo.get(name).operator
    assert json.loads(facts["layers"]) == {key: list(value.shape) for key, value in model.weights.items()}
    assert isinstance(facts["seed"], int)
    assert 0 < facts["epoch"] == pytest.approx(facts["step"] * facts["batch"] / 60000)
    assert facts["command"] == f"python scripts/train_checkpoints.py {name}"
    for n, expected in zoo.get(name).expected[dataset.REAL]:
        assert facts["correctness" if n == 10000 else f"correctness_{n}"] == expected
    assert facts["smallest_gap"] >= 1e-4
    assert facts["smallest_gap"] >= 10 * facts["float32_error"] > 0


def _check(name, model, images, labels, source):
    logits = float64_models.logits(name, source, len(images))
    predictions = logits.argmax(axis=1)
    for n, expected in zoo.get(name).expected[source]:
        if n <= len(images):
            assert (predictions[:n] == labels[:n]).mean() == expected
    # smallest_gap in the file is that over both sets of images.
    assert _gap(logits) >= model.attributes["smallest_gap"] * (1 - 1e-6)
    assert np.array_equal(_mxnet_predictions(name, model.weights, images[:500]), predictions[:500])


def test_correctness_on_the_real_set(name, model, data_dir):
    _check(name, model, *idx.read_pair(data_dir), dataset.REAL)


def test_correctness_on_the_built_in_set(name, model):
    images, labels = synthetic.draw(0, SYNTHETIC_PART)
    _check(name, model, images, labels, dataset.SYNTHETIC)


def test_correctness_on_both_sets_is_similar(name):
    """A model's correctness on the built-in set is within 0.1 of that on the real set."""
    real, drawn = (zoo.get(name).expected[source][0][1] for source in (dataset.REAL, dataset.SYNTHETIC))
    assert abs(real - drawn) < 0.1
