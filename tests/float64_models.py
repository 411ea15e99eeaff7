"""The shipped models in float64: their logits, computed once and kept between runs."""

import functools
import inspect

import numpy as np
import reference
import reference_cache

from fashion_infer.checkpoints import editions, zoo
from fashion_infer.data import dataset
from fashion_infer.graph import network


def layers_of(edition):
    """The edition's network without its softmax, as `reference.forward` takes it."""
    kinds = {editions.Convolution: "convolution", editions.Tanh: "tanh", editions.MaxPool: "pool"}
    chain = [(kinds[type(layer)], *layer) for layer in edition.features]
    return [*chain, ("dense", edition.hidden, True), ("tanh",), ("dense", len(edition.class_names), True)]


def pixels(name, source, n):
    """The first n images of a data source at the model's input size, (n, 1, side, side) uint8."""
    return np.asarray(dataset.resized(dataset.load(n, source=source), editions.get(zoo.get(name).edition).input_size))


def network_of(name):
    """The model's layers, and its weights in the order of the layers that read them."""
    model = zoo.get(name)
    checkpoint = model.load()
    names = [node["name"] for node in network.parse(checkpoint.symbol, name)["nodes"] if node["op"] == "null"]
    weights = [checkpoint.weights[name] for name in names if name in checkpoint.weights]
    return layers_of(editions.get(model.edition)), weights


@functools.lru_cache(maxsize=None)
def logits(name, source, n):
    """What comes before the softmax for the first n images of a data source, (n, 10) float64."""
    sources = [inspect.getsourcefile(reference)]
    values = reference_cache.kept(
        reference.forward_in_slices, *network_of(name), pixels(name, source, n), sources=sources
    )
    values.setflags(write=False)
    return values
