"""Changes of graphs: another convolution operator, other names, added attributes, added nodes that normalise pixels."""

import contextlib
import json
import re
from typing import Dict, List, NamedTuple, Optional

import numpy as np

from ..errors import CheckpointError
from ..system.text import excerpt
from .symbol import BUILTIN_OPERATOR, CUSTOM_OPERATOR, Graph, Node, attributes, flag, sizes

# Hidden attributes: MXNet keeps them on every operator, and they survive into the subgraph that is fused.
NODE, BACKEND, DEVICE = "__fops_node__", "__fops_backend__", "__fops_device__"
KERNEL, LAYER = "__fops_kernel__", "__fops_layer__"
# Attributes of a `Convolution` that `_check_plain` checks, or that `New` has too.
_KNOWN_ATTRIBUTES = ("kernel", "num_filter", "stride", "dilate", "pad", "num_group", "no_bias", "layout")
# Attributes of a `Convolution` that do not change results.
_SPEED_ATTRIBUTES = ("workspace", "cudnn_tune", "cudnn_off")
_NUMBERED = re.compile(r"(?<![0-9A-Za-z_])node(\d+)(?![0-9A-Za-z])")
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9_.+/ -]")  # characters of a layer's name that become "?"


class Normalisation(NamedTuple):
    """The normalisation that a network was trained with: (pixel / scale - mean) / std, with pixels from 0 to 255."""

    scale: float = 1.0
    mean: float = 0.0
    std: float = 1.0

    def of(self, pixels: np.ndarray) -> np.ndarray:
        """Return normalised pixels in float32, with the same bits as from the nodes that `with_normalisation` adds."""
        found = pixels.astype(np.float32)
        if self.scale != 1:
            found /= np.float32(self.scale)
        if self.mean:
            found -= np.float32(self.mean)
        if self.std != 1:
            found /= np.float32(self.std)
        return found


def with_normalisation(graph: Graph, by: Normalisation) -> Graph:
    """Add nodes after `data` that normalise pixels, in the order of Gluon's and torchvision's Normalize."""
    steps = [("_div_scalar", "scale", by.scale, 1.0), ("_minus_scalar", "mean", by.mean, 0.0)]
    steps = [step for step in [*steps, ("_div_scalar", "std", by.std, 1.0)] if step[2] != step[3]]
    nodes: List[Node] = []
    places: Dict[int, int] = {}
    for number, node in enumerate(graph["nodes"]):
        inputs = [[places[entry[0]], *entry[1:]] for entry in node["inputs"]]
        nodes.append({**node, "inputs": inputs})
        places[number] = len(nodes) - 1
        if node["op"] == "null" and node["name"] == "data":
            for op, name, value, _ in steps:
                values = {"scalar": repr(float(value))}
                nodes.append({"op": op, "name": f"data_{name}", "inputs": [[len(nodes) - 1, 0, 0]], "attrs": values})
            places[number] = len(nodes) - 1
    variables = [number for number, node in enumerate(nodes) if node["op"] == "null"]
    heads = [[places[entry[0]], *entry[1:]] for entry in graph["heads"]]
    return {**graph, "nodes": nodes, "arg_nodes": variables, "heads": heads}


def with_operator(graph: Graph, operator: str) -> Graph:
    """Return a copy whose convolutions are all `New` ("custom"; CheckpointError if impossible) or `Convolution`."""
    graph = _copy(graph)
    for node in graph["nodes"]:
        if operator == "builtin" and node["op"] == CUSTOM_OPERATOR:
            node["op"] = BUILTIN_OPERATOR
            attributes(node).update(kernel=str(tuple((sizes(node, "kernel") * 2)[:2])), no_bias="True")
        elif operator == "custom" and node["op"] == BUILTIN_OPERATOR:
            _make_custom(node)
    return graph


def with_pixel_input(graph: Graph) -> Graph:
    """Return a copy with `New` for every possible `Convolution`: MXNet accepts uint8 data only for `New`."""
    graph = _copy(graph)
    for node in graph["nodes"]:
        if node["op"] == BUILTIN_OPERATOR:
            with contextlib.suppress(CheckpointError):
                _make_custom(node)
    return graph


def takes_pixels(graph: Graph) -> bool:
    """Return whether only our operator reads `data`. Our operator accepts uint8 data."""
    nodes = graph["nodes"]
    data = {index for index, node in enumerate(nodes) if node["op"] == "null" and node["name"] == "data"}
    readers = {node["op"] for node in nodes for entry in node["inputs"] if entry[0] in data}
    return readers == {CUSTOM_OPERATOR}


def with_tags(graph: Graph, backend: str, device: int, kernel: str) -> Graph:
    """Return a copy with the attributes that our operator reads, such as the node's number for the log."""
    graph = _copy(graph)
    for number, node in enumerate(graph["nodes"]):
        if node["op"] == "null":
            continue
        attributes(node)[NODE] = str(number)
        if node["op"] == CUSTOM_OPERATOR:
            layer = _NOT_PLAIN.sub("?", excerpt(node["name"]))
            settings = {BACKEND: backend, DEVICE: str(device), KERNEL: kernel, LAYER: layer}
            attributes(node).update(settings)
    return graph


def with_numbered_names(graph: Graph) -> Graph:
    """Return a copy in which every node is called "node" and its number, because names may be any text."""
    return {**graph, "nodes": [{**node, "name": name_of(index)} for index, node in enumerate(graph["nodes"])]}


def name_of(number: int) -> str:
    return f"node{number}"


def number_of(name: str) -> Optional[int]:
    """Return the number of a node with a name from `with_numbered_names`; None for a node that MXNet added."""
    found = _NUMBERED.fullmatch(name)
    return int(found.group(1)) if found else None


def with_names(message: str, graph: Graph) -> str:
    def original(found):
        number = int(found.group(1))
        return f"'{excerpt(graph['nodes'][number]['name'])}'" if number < len(graph["nodes"]) else found.group()

    return _NUMBERED.sub(original, message)


def _copy(graph: Graph) -> Graph:
    return json.loads(json.dumps(graph))


def _make_custom(node: Node) -> None:
    _check_plain(node)
    node["op"] = CUSTOM_OPERATOR
    values = attributes(node)
    for key in [k for k in values if k not in ("kernel", "num_filter")]:
        del values[key]


def _check_plain(node: Node) -> None:
    kernel = sizes(node, "kernel")
    if len(kernel) != 2 or kernel[0] != kernel[1]:
        _refuse(node, f"has kernel={attributes(node).get('kernel')}, and the custom operator needs a square kernel")
    for key, wanted in (("stride", 1), ("dilate", 1), ("pad", 0), ("num_group", 1)):
        if any(size != wanted for size in sizes(node, key)):
            _refuse(node, f"has {key}={attributes(node)[key]}, which the custom operator does not support")
    if not flag(node, "no_bias"):
        _refuse(node, "has a bias, which the custom operator does not support")
    if attributes(node).get("layout", "None") not in ("None", "NCHW"):
        _refuse(node, f"has layout={attributes(node)['layout']}, and the custom operator needs NCHW")
    for key in attributes(node):
        if key not in _KNOWN_ATTRIBUTES + _SPEED_ATTRIBUTES and not key.startswith("__"):
            _refuse(node, f"has {key}={attributes(node)[key]}, which the custom operator does not know")


def _refuse(node: Node, why: str) -> None:
    raise CheckpointError(f"node '{excerpt(node['name'])}' {why}: use --op builtin")
