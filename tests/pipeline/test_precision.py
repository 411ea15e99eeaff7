"""All 10,000 images of every model, in both modes, against the network in float64."""

import json

import float64_models
import numpy as np
import pytest
import reference

from fashion_infer import predictor
from fashion_infer.checkpoints import checkpoint, zoo
from fashion_infer.data import dataset
from fashion_infer.graph import network


def logits_of(net):
    """The same checkpoint, cut off before its softmax."""
    graph = network.parse(net.symbol, "the network")
    head = next(i for i, node in enumerate(graph["nodes"]) if node["name"] == "fullyconnected1")
    graph["nodes"], graph["heads"] = graph["nodes"][: head + 1], [[head, 0, 0]]
    graph["arg_nodes"] = [index for index in graph["arg_nodes"] if index <= head]
    graph.pop("node_row_ptr", None)
    return checkpoint.Checkpoint(json.dumps(graph), net.weights, net.attributes)


@pytest.mark.parametrize("name", list(zoo.MODELS))
def test_logits_and_predictions_against_float64(name, data_dir):
    net, pixels = zoo.get(name).load(), float64_models.pixels(name, dataset.REAL, 10000)
    wanted = float64_models.logits(name, dataset.REAL, 10000)
    spread = wanted.max() - wanted.min()
    for mode in predictor.MODES:
        bound = predictor.Predictor(logits_of(net), pixels.shape[1:], mode=mode)
        logits, _ = bound.predict(pixels)
        np.testing.assert_array_equal(logits.argmax(axis=1), wanted.argmax(axis=1))
        assert np.abs(logits - wanted).max() < 2e-6 * spread


@pytest.mark.parametrize("name", list(zoo.MODELS))
def test_kept_references_are_what_the_oracle_computes(name, data_dir):
    """Twenty images, others in every run."""
    chosen = np.random.default_rng().choice(10000, 20, replace=False)
    pixels = float64_models.pixels(name, dataset.REAL, 10000)[chosen]
    wanted, kept = (
        reference.forward(*float64_models.network_of(name), pixels),
        float64_models.logits(name, dataset.REAL, 10000),
    )
    assert np.abs(kept[chosen] - wanted).max() < 1e-11 * np.abs(wanted).max(), chosen
