"""All 10,000 images through a model, in both modes, compared with NumPy's float64 results.

Each run draws two models.
"""

import float64_models
import numpy as np
import profiles
import pytest
import reference

from fashion_infer.checkpoints import editions, zoo
from fashion_infer.data import dataset
from fashion_infer.graph import symbol
from fashion_infer.inference import predictor

DRAWN = profiles.drawn(list(zoo.MODELS), 2)


@pytest.mark.parametrize("name", DRAWN)
def test_logits_and_predictions_against_float64(name, data_dir):
    model = zoo.get(name)
    shipped, edition = model.load(), editions.get(model.edition)
    pixels = float64_models.pixels(name, dataset.REAL, 10000)
    wanted = float64_models.logits(name, dataset.REAL, 10000)
    spread = wanted.max() - wanted.min()
    logits_of = shipped._replace(symbol=symbol.build(edition.layers[:-1], edition.shape, model.operator))
    for mode in ("operator", "fused"):
        logits, _ = predictor.Predictor(logits_of, edition.shape, mode=mode).predict(pixels)
        np.testing.assert_array_equal(logits.argmax(axis=1), wanted.argmax(axis=1))
        assert np.abs(logits - wanted).max() < 2e-6 * spread


@pytest.mark.parametrize("name", DRAWN)
def test_cached_references_equal_new_ones(name, data_dir):
    """For twenty randomly drawn images, the cached references equal what the oracle computes now."""
    chosen = np.random.default_rng().choice(10000, 20, replace=False)
    pixels = float64_models.pixels(name, dataset.REAL, 10000)[chosen]
    wanted, kept = (
        reference.forward(*float64_models.network_of(name), pixels),
        float64_models.logits(name, dataset.REAL, 10000),
    )
    assert np.abs(kept[chosen] - wanted).max() < 1e-11 * np.abs(wanted).max(), chosen
