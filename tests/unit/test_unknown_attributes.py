"""Nodes with attributes that the planner does not know are not fused, and do not get our operator."""

import json

import pytest
from hostile_checkpoints import LAYERS, SHAPE, changed, network, node

from fashion_infer.errors import CheckpointError, UsageError
from fashion_infer.graph import rewrite, symbol
from fashion_infer.library.fused import FusedNetwork


@pytest.mark.parametrize(
    "op, key, value",
    [
        ("Convolution", "layout", "NHWC"),
        ("Convolution", "unknown", "1"),
        ("Pooling", "layout", "NHWC"),
        ("Pooling", "unknown", "1"),
        ("Activation", "unknown", "1"),
        ("FullyConnected", "unknown", "1"),
        ("softmax", "unknown", "1"),
        ("Flatten", "unknown", "1"),
    ],
)
def test_a_node_with_an_unknown_attribute_is_not_fused(op, key, value):
    text = symbol.build(LAYERS, SHAPE, "builtin", softmax_label=False)
    found = network("builtin")
    FusedNetwork(text, found.weights, SHAPE)
    graph = json.loads(text)
    symbol.attributes(node(graph, op))[key] = value
    with pytest.raises(UsageError, match=f"'.*' cannot be fused: .*{key}"):
        FusedNetwork(json.dumps(graph), found.weights, SHAPE)


def test_a_convolution_with_another_layout_does_not_get_our_operator():
    """A convolution with the layout NHWC does not get our operator.

    MXNet's CPU build refuses such a convolution. The fused mode once computed it as NCHW.
    """
    other = changed(network("builtin"), lambda g: node(g, "Convolution")["attrs"].update(layout="NHWC"))
    graph = rewrite.with_pixel_input(symbol.parse(other.symbol, "it"))
    assert node(graph, "Convolution")["attrs"]["layout"] == "NHWC"
    with pytest.raises(CheckpointError, match="layout=NHWC.*--op builtin"):
        rewrite.with_operator(graph, "custom")
    for change in ({"kernel": "(3, 2)"}, {"unknown": "1"}):
        graph = json.loads(network("builtin").symbol)
        node(graph, "Convolution")["attrs"].update(change)
        assert node(rewrite.with_pixel_input(graph), "Convolution")
