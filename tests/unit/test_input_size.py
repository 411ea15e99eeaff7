"""The input size that is derived from the weights, compared with the shapes that MXNet infers."""

import json

import numpy as np
import profiles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fashion_infer import _mxnet
from fashion_infer._mxnet import plugin
from fashion_infer.checkpoints import editions
from fashion_infer.errors import CheckpointError
from fashion_infer.graph import input_size, symbol

mx = _mxnet.load()
plugin.load_operators()
KNOWN = [edition.input_size for edition in editions.EDITIONS.values()]


def build(edition, operator="custom"):
    chosen = editions.get(edition)
    return symbol.build(chosen.layers, chosen.shape, operator)


def fc_width(network, size):
    """Return the number of inputs of the first dense layer as MXNet infers it, or None if the images are too small."""
    try:
        shapes = dict(zip(network.list_arguments(), network.infer_shape(data=(1, 1, size, size))[0]))
    except mx.MXNetError:
        return None
    return next(shape[1] for name, shape in shapes.items() if name.startswith("fullyconnected0_w"))


@pytest.mark.parametrize("edition", list(editions.EDITIONS))
@pytest.mark.parametrize("operator", ["custom", "builtin"])
def test_editions(edition, operator):
    text, size = build(edition, operator), editions.get(edition).input_size
    width = fc_width(mx.sym.load_json(text), size)
    weights = {"fullyconnected0_weight": np.zeros((3, width), np.float32)}
    assert input_size.infer(json.loads(text), weights, KNOWN) == size


@st.composite
def chains(draw):
    """Draw a random network that ends with its first dense layer, and an image size, which may be too small for it."""
    x = mx.sym.Variable("data")
    for index in range(draw(st.integers(0, 4))):
        kind = draw(st.sampled_from(["New", "Convolution", "Pooling", "tanh"]))
        k = draw(st.integers(1, 5))
        if kind == "New":
            x = mx.sym.New(x, mx.sym.Variable(f"w{index}"), kernel=str((k, k)), num_filter=str(draw(st.integers(1, 5))))
        elif kind == "Convolution":
            x = mx.sym.Convolution(
                x,
                kernel=(k, k),
                num_filter=draw(st.integers(1, 5)),
                no_bias=True,
                pad=(draw(st.integers(0, 2)),) * 2,
                stride=(draw(st.integers(1, 2)),) * 2,
                dilate=(draw(st.integers(1, 2)),) * 2,
            )
        elif kind == "Pooling":
            x = mx.sym.Pooling(
                x,
                kernel=(k, k),
                stride=(draw(st.integers(1, 3)),) * 2,
                pool_type="max",
                pooling_convention=draw(st.sampled_from(["valid", "full"])),
            )
        else:
            x = mx.sym.Activation(x, act_type="tanh")
    network = mx.sym.FullyConnected(mx.sym.Flatten(x), num_hidden=7, name="fullyconnected0")
    return network, draw(st.integers(10, 90))


@given(chains())
@settings(max_examples=profiles.examples(60))
def test_random_chains(chain):
    network, size = chain
    width = fc_width(network, size)
    if width is None:
        return
    weights = {"fullyconnected0_weight": np.zeros((7, width), np.float32)}
    found = input_size.infer(symbol.parse(network.tojson(), ""), weights, KNOWN)
    assert fc_width(network, found) == width
    assert found <= size or found in KNOWN


def refused(change, weights=None):
    graph = json.loads(build("fa2017"))
    change(graph["nodes"])
    weights = {"fullyconnected0_weight": np.zeros((3, 7200))} if weights is None else weights
    with pytest.raises(CheckpointError) as error:
        input_size.infer(graph, weights)
    return str(error.value)


def test_input_sizes_that_cannot_be_derived():
    assert "no image of up to 512 pixels gives the 7201 inputs of fullyconnected0" in refused(
        lambda nodes: None, {"fullyconnected0_weight": np.zeros((3, 7201))}
    )
    assert "lacks fullyconnected0_weight" in refused(lambda nodes: None, {})
    refused(lambda nodes: nodes[3].update(op="transpose"))
    refused(lambda nodes: [n.update(op="Flatten") for n in nodes if n["op"] == "FullyConnected"])
    refused(lambda nodes: nodes[4]["attrs"].update(kernel="(x, 2)"))
