"""Attributes that the planner does not know keep a node out of fusion, and out of our operator."""

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
def test_an_attribute_that_the_planner_does_not_know_keeps_a_node_out(op, key, value):
    text = symbol.build(LAYERS, SHAPE, "builtin", softmax_label=False)
    found = network("builtin")
    FusedNetwork(text, found.weights, SHAPE)
    graph = json.loads(text)
    symbol.attributes(node(graph, op))[key] = value
    with pytest.raises(UsageError, match=f"'.*' cannot be fused: .*{key}"):
        FusedNetwork(json.dumps(graph), found.weights, SHAPE)


def test_a_convolution_of_another_layout_is_none_of_ours():
    """A convolution of another layout does not become ours.

    MXNet's CPU build refuses such a convolution, and so does the fused mode, which once computed it as NCHW.
    """
    other = changed(network("builtin"), lambda g: node(g, "Convolution")["attrs"].update(layout="NHWC"))
    graph = rewrite.taking_pixels(symbol.parse(other.symbol, "it"))
    assert node(graph, "Convolution")["attrs"]["layout"] == "NHWC"
    with pytest.raises(CheckpointError, match="layout=NHWC.*--op builtin"):
        rewrite.with_operator(graph, "custom")
    for change in ({"kernel": "(3, 2)"}, {"unknown": "1"}):
        graph = json.loads(network("builtin").symbol)
        node(graph, "Convolution")["attrs"].update(change)
        assert node(rewrite.taking_pixels(graph), "Convolution")
