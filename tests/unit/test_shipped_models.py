"""The shipped weights: what is in the files, and that NumPy in float64 and MXNet classify as zoo.py says.

No prediction is near a tie (see models/README.md), so the figures must be met exactly by any correct implementation.
"""

import json

import h5py
import numpy as np
import pytest

from fashion_infer import _mxnet, checkpoint, dataset, synthetic, zoo

NAMES = ["ece408-high", "ece408-low", "baseline"]
CONVOLUTION = {"ece408-high": "new0_weight", "ece408-low": "new0_weight", "baseline": "convolution0_weight"}
SHAPES = {
    "fullyconnected0_weight": (500, 7200),
    "fullyconnected0_bias": (500,),
    "fullyconnected1_weight": (10, 500),
    "fullyconnected1_bias": (10,),
}
SYNTHETIC_PART = 2000  # of the 10,000 images: the whole of the built-in set is left to the tests of the pipeline


@pytest.fixture(scope="module", params=NAMES)
def name(request):
    return request.param


@pytest.fixture(scope="module")
def model(name):
    return checkpoint.load_hdf5(zoo.get(name).path)


def _logits(weights, convolution, images):
    """The network in float64, from its definition, 500 images at a time."""
    w = {key: value.astype(np.float64) for key, value in weights.items()}
    kernels = w[convolution].reshape(50, 25).T
    parts = []
    for start in range(0, len(images), 500):
        x = images[start : start + 500, 0].astype(np.float64)
        windows = np.lib.stride_tricks.sliding_window_view(x, (5, 5), axis=(1, 2)).reshape(-1, 25)
        y = windows.dot(kernels).reshape(-1, 12, 2, 12, 2, 50)
        # Pooling before tanh gives the same as tanh before pooling, since tanh only rises, at a quarter of the work.
        y = np.tanh(y.max(axis=(2, 4))).transpose(0, 3, 1, 2).reshape(len(x), 7200)
        y = np.tanh(y.dot(w["fullyconnected0_weight"].T) + w["fullyconnected0_bias"])
        parts.append(y.dot(w["fullyconnected1_weight"].T) + w["fullyconnected1_bias"])
    return np.concatenate(parts)


def _mxnet_predictions(weights, convolution, images):
    """The network in MXNet's own float32 operators."""
    nd = _mxnet.load().nd
    w = {key: nd.array(value) for key, value in weights.items()}
    parts = []
    for start in range(0, len(images), 500):
        x = nd.array(images[start : start + 500].astype(np.float32))
        x = nd.Convolution(x, w[convolution], kernel=(5, 5), num_filter=50, no_bias=True)
        x = nd.Pooling(nd.tanh(x), kernel=(2, 2), stride=(2, 2), pool_type="max")
        x = nd.tanh(
            nd.FullyConnected(nd.flatten(x), w["fullyconnected0_weight"], w["fullyconnected0_bias"], num_hidden=500)
        )
        x = nd.FullyConnected(x, w["fullyconnected1_weight"], w["fullyconnected1_bias"], num_hidden=10)
        parts.append(x.asnumpy().argmax(axis=1))
    return np.concatenate(parts)


def _gap(logits):
    top = np.partition(logits, -2, axis=1)
    return (top[:, -1] - top[:, -2]).min()


def test_together_they_are_small():
    assert sum(zoo.get(name).path.stat().st_size for name in NAMES) < 12_000_000


def test_shapes_and_values(name, model):
    shapes = {**SHAPES, CONVOLUTION[name]: (50, 1, 5, 5)}
    assert {key: value.shape for key, value in model.weights.items()} == shapes
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
    assert facts["edition"] == zoo.get(name).edition == "fa2017"
    assert facts["operator"] == ("builtin" if name == "baseline" else "custom")
    assert json.loads(facts["layers"]) == {key: list(value.shape) for key, value in model.weights.items()}
    assert isinstance(facts["seed"], int)
    assert 0 < facts["epoch"] == pytest.approx(facts["step"] * facts["batch"] / 60000)
    assert facts["command"] == f"python scripts/train_checkpoints.py {name}"
    for n, expected in zoo.get(name).expected[dataset.REAL]:
        assert facts["correctness" if n == 10000 else f"correctness_{n}"] == expected
    assert facts["smallest_gap"] >= 1e-4
    assert facts["smallest_gap"] >= 10 * facts["float32_error"] > 0


def _check(name, model, images, labels, source):
    logits = _logits(model.weights, CONVOLUTION[name], images)
    predictions = logits.argmax(axis=1)
    for n, expected in zoo.get(name).expected[source]:
        if n <= len(images):
            assert (predictions[:n] == labels[:n]).mean() == expected
    # The file gives the smallest gap over the test set and the built-in set together.
    assert _gap(logits) >= model.attributes["smallest_gap"] * (1 - 1e-6)
    assert np.array_equal(_mxnet_predictions(model.weights, CONVOLUTION[name], images[:500]), predictions[:500])


def test_correctness_on_the_real_set(name, model, data_dir):
    _check(name, model, *dataset.read_pair(data_dir), dataset.REAL)


def test_correctness_on_the_built_in_set(name, model):
    images, labels = synthetic.draw(0, SYNTHETIC_PART)
    _check(name, model, images, labels, dataset.SYNTHETIC)


def test_the_built_in_set_tells_the_models_apart(name, model):
    """A figure on it is worth checking: the accurate networks do well on it, the inaccurate one does not."""
    images, labels = synthetic.draw(0, 500)
    right = (_logits(model.weights, CONVOLUTION[name], images).argmax(axis=1) == labels).mean()
    assert (0.4 < right < 0.8) if name == "ece408-low" else (0.8 < right < 1)
