"""The shipped weights: what is in the files, and that NumPy in float64 and MXNet classify as zoo.py says.

No prediction is near a tie (see models/README.md), so the figures must be met exactly by any correct implementation.
"""

import functools
import json

import h5py
import numpy as np
import pytest

from fashion_infer import _mxnet
from fashion_infer.checkpoints import checkpoint, editions, zoo
from fashion_infer.data import dataset, synthetic
from fashion_infer.data.resize import resize

SYNTHETIC_PART = 2000  # of the 10,000 images: the whole of the built-in set is left to the tests of the pipeline


@pytest.fixture(scope="module", params=list(zoo.MODELS))
def name(request):
    return request.param


@pytest.fixture(scope="module")
def model(name):
    return checkpoint.load_hdf5(zoo.get(name).path)


def _edition(name):
    return editions.get(zoo.get(name).edition)


def _shapes(name):
    """The shape of every weight, from the edition's layers."""
    edition, prefix = _edition(name), {"custom": "new", "builtin": "convolution"}[zoo.get(name).operator]
    shapes, channels, side = {}, 1, edition.input_size
    for layer in edition.features:
        if isinstance(layer, editions.Convolution):
            shapes[f"{prefix}{len(shapes)}_weight"] = (layer.filters, channels, layer.kernel, layer.kernel)
            channels, side = layer.filters, side - layer.kernel + 1
        elif isinstance(layer, editions.MaxPool):
            side //= layer.size
    widths = channels * side * side, edition.hidden, 10
    for index in (0, 1):
        shapes[f"fullyconnected{index}_weight"] = widths[index + 1], widths[index]
        shapes[f"fullyconnected{index}_bias"] = (widths[index + 1],)
    return shapes


def _kernels(name, weights):
    return iter([weights[key] for key, shape in _shapes(name).items() if len(shape) == 4])


def _layers(edition):
    """The edition's features, pooling before tanh: the same, since tanh only rises, at a quarter of the work."""
    layers = list(edition.features)
    for i in range(len(layers) - 1):
        if isinstance(layers[i], editions.Tanh) and isinstance(layers[i + 1], editions.MaxPool):
            layers[i : i + 2] = layers[i + 1], layers[i]
    return layers


def _pool(x, size):
    height, width = (side // size * size for side in x.shape[2:])
    shifted = [x[:, :, i:height:size, j:width:size] for i in range(size) for j in range(size)]
    return functools.reduce(np.maximum, shifted)


def _features(edition, kernels, x):
    """What the first fully connected layer sees of pixels x (n, 1, side, side), (n, inputs) float64."""
    x = x.astype(np.float64)
    for layer in _layers(edition):
        if isinstance(layer, editions.Convolution):
            k = next(kernels)
            windows = np.lib.stride_tricks.sliding_window_view(x, k.shape[2:], axis=(2, 3))
            x = np.tensordot(windows, k, axes=((1, 4, 5), (1, 2, 3))).transpose(0, 3, 1, 2)
        else:
            x = np.tanh(x) if isinstance(layer, editions.Tanh) else _pool(x, layer.size)
    return x.reshape(len(x), -1)


def _logits(name, weights, images):
    """The network in float64, from its definition."""
    w = {key: value.astype(np.float64) for key, value in weights.items()}
    edition, parts = _edition(name), []
    for start in range(0, len(images), 100):
        pixels = resize(images[start : start + 100], edition.input_size)
        # The windows of fa2019's second convolution take 2 MB an image: few enough at a time stay in the caches.
        x = np.concatenate([_features(edition, _kernels(name, w), pixels[i : i + 4]) for i in range(0, len(pixels), 4)])
        x = np.tanh(x.dot(w["fullyconnected0_weight"].T) + w["fullyconnected0_bias"])
        parts.append(x.dot(w["fullyconnected1_weight"].T) + w["fullyconnected1_bias"])
    return np.concatenate(parts)


def _mxnet_predictions(name, weights, images):
    """The network in MXNet's own float32 operators."""
    nd = _mxnet.load().nd
    w = {key: nd.array(value) for key, value in weights.items()}
    edition, parts = _edition(name), []
    for start in range(0, len(images), 100):
        x = nd.array(resize(images[start : start + 100], edition.input_size).astype(np.float32))
        kernels = _kernels(name, w)
        for layer in edition.features:
            if isinstance(layer, editions.Convolution):
                sizes = {"kernel": (layer.kernel, layer.kernel), "num_filter": layer.filters}
                x = nd.Convolution(x, next(kernels), no_bias=True, **sizes)
            elif isinstance(layer, editions.Tanh):
                x = nd.tanh(x)
            else:
                x = nd.Pooling(x, kernel=(layer.size, layer.size), stride=(layer.size, layer.size), pool_type="max")
        for index, units in enumerate((edition.hidden, 10)):
            weight, bias = w[f"fullyconnected{index}_weight"], w[f"fullyconnected{index}_bias"]
            x = nd.FullyConnected(nd.tanh(x) if index else nd.flatten(x), weight, bias, num_hidden=units)
        parts.append(x.asnumpy().argmax(axis=1))
    return np.concatenate(parts)


def _gap(logits):
    top = np.partition(logits, -2, axis=1)
    return (top[:, -1] - top[:, -2]).min()


def test_together_they_are_small():
    assert sum(model.path.stat().st_size for model in zoo.MODELS.values()) < 20_000_000


def test_shapes_and_values(name, model):
    assert {key: value.shape for key, value in model.weights.items()} == _shapes(name)
    for value in model.weights.values():
        assert value.dtype == np.float32
        assert np.isfinite(value).all()
        assert np.abs(value).max() < 2  # a saturated layer would amplify rounding


def test_weights_are_int8_times_a_scale_a_row(name, model):
    with h5py.File(zoo.get(name).path, "r") as file:
        for key in ("fullyconnected0_weight", "fullyconnected1_weight"):
            steps, scale = file["weights"][key][()], file["scales"][key][()]
            assert steps.dtype == np.int8 and scale.dtype == np.float32
            assert np.all(np.abs(steps.astype(int)).max(axis=1) == 127)  # no row wastes its range
            # The product of an int8 and a float32 has at most 31 bits: exact in float64, rounded once to float32.
            exact = steps.astype(np.float64) * scale.astype(np.float64)[:, None]
            assert np.array_equal(exact.astype(np.float32), model.weights[key])
        for stored in file["weights"].values():
            assert stored.compression == "gzip" and stored.shuffle


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
    logits = _logits(name, model.weights, images)
    predictions = logits.argmax(axis=1)
    for n, expected in zoo.get(name).expected[source]:
        if n <= len(images):
            assert (predictions[:n] == labels[:n]).mean() == expected
    # The file gives the smallest gap over the test set and the built-in set together.
    assert _gap(logits) >= model.attributes["smallest_gap"] * (1 - 1e-6)
    assert np.array_equal(_mxnet_predictions(name, model.weights, images[:500]), predictions[:500])


def test_correctness_on_the_real_set(name, model, data_dir):
    _check(name, model, *dataset.read_pair(data_dir), dataset.REAL)


def test_correctness_on_the_built_in_set(name, model):
    images, labels = synthetic.draw(0, SYNTHETIC_PART)
    _check(name, model, images, labels, dataset.SYNTHETIC)


def test_the_built_in_set_tells_the_models_apart(name):
    """A figure on it is worth checking: a network does about as well on it as on the real images."""
    real, drawn = (zoo.get(name).expected[source][0][1] for source in (dataset.REAL, dataset.SYNTHETIC))
    assert abs(real - drawn) < 0.1
