"""The shipped weights: the contents of the files, and the logits and the correctness that NumPy in float64 computes.

No prediction is near a tie (see models/README.md), so a correct implementation must have exactly this correctness.
"""

import functools

import numpy as np
import profiles
import pytest
import reference

from fashion_infer.checkpoints import editions, hdf5, zoo
from fashion_infer.data import dataset
from fashion_infer.graph import symbol
from fashion_infer.graph.layers import walk
from fashion_infer.inference import predictor

# The number of images that are tested. The pipeline's tests and `make test-all` use all 10,000.
PART = profiles.pick(2000, 10000)


@pytest.fixture(scope="module", params=profiles.drawn(list(zoo.MODELS), 1))
def name(request):
    """A model, drawn in each run: its float64 logits take seconds. `make test-all` takes all models."""
    return request.param


@pytest.fixture(scope="module")
def model(name):
    return hdf5.load(zoo.get(name).path)


def _edition(name):
    return editions.get(zoo.get(name).edition)


def _shapes(name):
    prefix = {"custom": "new", "builtin": "convolution"}[zoo.get(name).operator]
    steps = walk(_edition(name).layers, _edition(name).shape, prefix)
    return {key: shape for step in steps for key, shape in step.parameters.items()}


def _pixels(name, source, n):
    """Return the first n images of a data source at the model's input size, (n, 1, side, side) uint8."""
    return np.asarray(dataset.resized(dataset.load(n, source=source), _edition(name).input_size))


@functools.lru_cache(maxsize=None)
def _logits(name, source, n):
    """Return the logits of the model for the first n images of a data source, (n, 10) float64, computed by NumPy."""
    loaded = zoo.get(name).load().weights
    weights, images = [loaded[key].astype(np.float64) for key in _shapes(name)], _pixels(name, source, n)
    layers, few = _edition(name).layers[:-1], 20  # the activations of few images fit in the caches
    return np.concatenate([reference.forward(layers, weights, images[i : i + few]) for i in range(0, n, few)])


@pytest.mark.parametrize("source", [dataset.REAL, dataset.SYNTHETIC])
def test_correctness_and_logits_in_float64(name, model, source, data_dir):
    edition, pixels, labels = _edition(name), _pixels(name, source, PART), dataset.load(PART, source=source).labels
    wanted = _logits(name, source, PART)
    for n, expected in zoo.get(name).expected[source]:
        assert n > PART or (wanted.argmax(axis=1)[:n] == labels[:n]).mean() == expected
    # smallest_gap in the file is that over both sets of images.
    top = np.partition(wanted, -2, axis=1)
    assert (top[:, -1] - top[:, -2]).min() >= model.attributes["smallest_gap"] * (1 - 1e-6)
    logits_of = model._replace(symbol=symbol.build(edition.layers[:-1], edition.shape, zoo.get(name).operator))
    for mode, operator in (("operator", "custom"), ("operator", "builtin"), ("fused", None)):
        logits, _ = predictor.Predictor(logits_of, edition.shape, mode=mode, operator=operator).predict(pixels)
        np.testing.assert_array_equal(logits.argmax(axis=1), wanted.argmax(axis=1))
        assert np.abs(logits - wanted).max() < 2e-6 * (wanted.max() - wanted.min())
