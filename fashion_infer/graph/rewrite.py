"""Graphs rewritten: from one convolution operator to the other, and with what our operator has to be told."""

import contextlib
import json

from ..errors import CheckpointError
from .symbol import BUILTIN_OPERATOR, CUSTOM_OPERATOR, Graph, Node, attributes, flag, sizes

# Hidden attributes: MXNet keeps them on every operator, and they survive into the subgraph that is fused.
NODE, BACKEND, DEVICE = "__fops_node__", "__fops_backend__", "__fops_device__"
KERNEL, LAYER = "__fops_kernel__", "__fops_layer__"


def with_operator(graph: Graph, operator: str) -> Graph:
    """The same network with its convolution layers run by "custom" (`New`) or "builtin" (`Convolution`).

    Raises
    ------
    CheckpointError
        When a `Convolution` does what `New` can't: a bias, padding, groups, a stride or dilation other than 1.
    """
    graph = _copy(graph)
    for node in graph["nodes"]:
        if operator == "builtin" and node["op"] == CUSTOM_OPERATOR:
            node["op"] = BUILTIN_OPERATOR
            attributes(node)["no_bias"] = "True"
        elif operator == "custom" and node["op"] == BUILTIN_OPERATOR:
            _make_custom(node)
    return graph


def taking_pixels(graph: Graph) -> Graph:
    """The same network with every `Convolution` that `New` can stand for turned into one.

    To the fused mode both are the same, but MXNet's type inference lets only `New` take uint8 data: with it the images
    need not be widened on the host.
    """
    graph = _copy(graph)
    for node in graph["nodes"]:
        if node["op"] == BUILTIN_OPERATOR:
            with contextlib.suppress(CheckpointError):
                _make_custom(node)
    return graph


def takes_pixels(graph: Graph) -> bool:
    """Whether all that reads `data` is our operator, which takes uint8 as it is."""
    nodes = graph["nodes"]
    data = {index for index, node in enumerate(nodes) if node["op"] == "null" and node["name"] == "data"}
    readers = {node["op"] for node in nodes for entry in node["inputs"] if entry[0] in data}
    return readers == {CUSTOM_OPERATOR}


def tagged(graph: Graph, backend: str, device: int, kernel: str, first: int = 0) -> Graph:
    """The graph with every node that computes numbered for the op-time log, from `first` on, and our operator's told
    how to run."""
    graph = _copy(graph)
    for number, node in enumerate(graph["nodes"], first):
        if node["op"] == "null":
            continue
        attributes(node)[NODE] = str(number)
        if node["op"] == CUSTOM_OPERATOR:
            told = {BACKEND: backend, DEVICE: str(device), KERNEL: kernel, LAYER: node["name"]}
            attributes(node).update(told)
    return graph


def _copy(graph: Graph) -> Graph:
    return json.loads(json.dumps(graph))


def _make_custom(node: Node) -> None:
    _check_plain(node)
    node["op"] = CUSTOM_OPERATOR
    values = attributes(node)
    for key in [k for k in values if k not in ("kernel", "num_filter")]:
        del values[key]


def _check_plain(node: Node) -> None:
    for key, wanted in (("stride", 1), ("dilate", 1), ("pad", 0), ("num_group", 1)):
        if any(size != wanted for size in sizes(node, key)):
            raise CheckpointError(
                f"node '{node['name']}' has {key}={attributes(node)[key]}, which the custom operator can't do: "
                "use --op builtin"
            )
    if not flag(node, "no_bias"):
        raise CheckpointError(
            f"node '{node['name']}' has a bias, which the custom operator can't add: use --op builtin"
        )
