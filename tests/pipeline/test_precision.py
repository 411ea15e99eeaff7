"""All 10,000 images of every model, in both modes, against the network in float64."""

import numpy as np
import pytest
import reference

from fashion_infer import predictor, request
from fashion_infer.checkpoints import editions, zoo
from fashion_infer.data import dataset
from fashion_infer.graph import layers, symbol

SLICE = 50  # the float64 activations of one fit in the caches


@pytest.mark.parametrize("name", list(zoo.MODELS))
def test_logits_and_predictions_against_float64(name, data_dir):
    model = zoo.get(name)
    shipped, edition = model.load(), editions.get(model.edition)
    chain = edition.layers[:-1]  # up to the logits
    prefix = {"custom": "new", "builtin": "convolution"}[model.operator]
    weights = [shipped.weights[key] for step in layers.walk(chain, edition.shape, prefix) for key in step.parameters]
    pixels = dataset.resized(dataset.load(10000), edition.input_size)
    slices = [np.asarray(pixels[start : start + SLICE]) for start in range(0, 10000, SLICE)]
    wanted = np.concatenate([reference.forward(chain, weights, part) for part in slices])
    spread = wanted.max() - wanted.min()
    logits_of = shipped._replace(symbol=symbol.build(chain, edition.shape, model.operator))
    for mode in request.MODES:
        logits, _ = predictor.Predictor(logits_of, edition.shape, mode=mode).predict(pixels)
        np.testing.assert_array_equal(logits.argmax(axis=1), wanted.argmax(axis=1))
        assert np.abs(logits - wanted).max() < 2e-6 * spread
