"""All 10,000 images of every model, in both modes, against the network in float64."""

import json

import numpy as np
import pytest
import reference

from fashion_infer import predictor
from fashion_infer.checkpoints import checkpoint, editions, zoo
from fashion_infer.data import dataset
from fashion_infer.graph import network

SLICE = 50  # the float64 activations of one fit in the caches


def layers_of(edition):
    """The edition's network without its softmax, as `reference.forward` takes it."""
    kinds = {editions.Convolution: "convolution", editions.Tanh: "tanh", editions.MaxPool: "pool"}
    chain = [(kinds[type(layer)], *layer) for layer in edition.features]
    return [*chain, ("dense", edition.hidden, True), ("tanh",), ("dense", len(edition.class_names), True)]


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
    model = zoo.get(name)
    net, edition = model.load(), editions.get(model.edition)
    pixels = dataset.resized(dataset.load(10000), edition.input_size)
    names = [node["name"] for node in network.parse(net.symbol, name)["nodes"] if node["op"] == "null"]
    weights = [net.weights[name] for name in names if name in net.weights]
    slices = [np.asarray(pixels[start : start + SLICE]) for start in range(0, 10000, SLICE)]
    wanted = np.concatenate([reference.forward(layers_of(edition), weights, part) for part in slices])
    spread = wanted.max() - wanted.min()
    for mode in predictor.MODES:
        bound = predictor.Predictor(logits_of(net), (1, edition.input_size, edition.input_size), mode=mode)
        logits, _ = bound.predict(pixels)
        np.testing.assert_array_equal(logits.argmax(axis=1), wanted.argmax(axis=1))
        assert np.abs(logits - wanted).max() < 2e-6 * spread
