"""Graph rewrites: between the two convolution operators, and to add attributes for our operator."""

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
# Attributes of a `Convolution`: those that `_check_plain` checks, and those that change no result.
_HEEDED = ("kernel", "num_filter", "stride", "dilate", "pad", "num_group", "no_bias", "layout")
_OF_SPEED = ("workspace", "cudnn_tune", "cudnn_off")
_NUMBERED = re.compile(r"(?<![0-9A-Za-z_])node(\d+)(?![0-9A-Za-z])")
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9_.+/ -]")  # in a message from the library


class Normalisation(NamedTuple):
    """The normalisation a network was trained with: (pixel / scale - mean) / std, with pixels from 0 to 255."""

    scale: float = 1.0
    mean: float = 0.0
    std: float = 1.0

    def of(self, pixels: np.ndarray) -> np.ndarray:
        """Return normalised pixels in float32, computed in the steps of `normalising` and so with the same bits."""
        found = pixels.astype(np.float32)
        if self.scale != 1:
            found /= np.float32(self.scale)
        if self.mean:
            found -= np.float32(self.mean)
        if self.std != 1:
            found /= np.float32(self.std)
        return found


def normalising(graph: Graph, by: Normalisation) -> Graph:
    """Add nodes after `data` that normalise pixels, in float32 and in the order of `Normalisation`.

    The order is that of ToTensor and Normalize in Gluon and torchvision, so that results match theirs bit for bit.
    """
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
    """Convert the network's convolution layers to "custom" (`New`) or "builtin" (`Convolution`).

    Raises
    ------
    CheckpointError
        When a `Convolution` has something that `New` does not support: a bias, padding, groups, or a stride or
        dilation other than 1.
    """
    graph = _copy(graph)
    for node in graph["nodes"]:
        if operator == "builtin" and node["op"] == CUSTOM_OPERATOR:
            node["op"] = BUILTIN_OPERATOR
            attributes(node).update(kernel=str(tuple((sizes(node, "kernel") * 2)[:2])), no_bias="True")
        elif operator == "custom" and node["op"] == BUILTIN_OPERATOR:
            _make_custom(node)
    return graph


def taking_pixels(graph: Graph) -> Graph:
    """Convert every `Convolution` that `New` can replace.

    The fused mode treats both the same, but MXNet's type inference lets only `New` take uint8 data: with it, the images
    need not be converted on the host.
    """
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


def tagged(graph: Graph, backend: str, device: int, kernel: str, first: int = 0) -> Graph:
    """Number every computing node for the op-time log, from `first` on, and set backend, device and kernel of our
    operator's nodes."""
    graph = _copy(graph)
    for number, node in enumerate(graph["nodes"], first):
        if node["op"] == "null":
            continue
        attributes(node)[NODE] = str(number)
        if node["op"] == CUSTOM_OPERATOR:
            layer = _NOT_PLAIN.sub("?", excerpt(node["name"]))
            settings = {BACKEND: backend, DEVICE: str(device), KERNEL: kernel, LAYER: layer}
            attributes(node).update(settings)
    return graph


def numbered(graph: Graph) -> Graph:
    """Rename every node to "node" and its number.

    MXNet sees only these names. Names in files may have any length and alphabet, may contain text that MXNet parses as
    JSON or as the end of a name, and may occur twice.
    """
    return {**graph, "nodes": [{**node, "name": name_of(index)} for index, node in enumerate(graph["nodes"])]}


def name_of(number: int) -> str:
    """Return the name that `numbered` gives a node."""
    return f"node{number}"


def number_of(name: str) -> Optional[int]:
    """Return the number of a node with a name from `numbered`; None for a node that MXNet added."""
    found = _NUMBERED.fullmatch(name)
    return int(found.group(1)) if found else None


def with_names(message: str, graph: Graph) -> str:
    """Replace the nodes' numbered names in a message by their original ones."""

    def own(found):
        number = int(found.group(1))
        return f"'{excerpt(graph['nodes'][number]['name'])}'" if number < len(graph["nodes"]) else found.group()

    return _NUMBERED.sub(own, message)


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
        _refuse(node, f"has kernel={attributes(node).get('kernel')}, and the custom operator's is square")
    for key, wanted in (("stride", 1), ("dilate", 1), ("pad", 0), ("num_group", 1)):
        if any(size != wanted for size in sizes(node, key)):
            _refuse(node, f"has {key}={attributes(node)[key]}, which the custom operator can't do")
    if not flag(node, "no_bias"):
        _refuse(node, "has a bias, which the custom operator can't add")
    if attributes(node).get("layout", "None") not in ("None", "NCHW"):
        _refuse(node, f"has layout={attributes(node)['layout']}, and the custom operator's is NCHW")
    for key in attributes(node):
        if key not in _HEEDED + _OF_SPEED and not key.startswith("__"):
            _refuse(node, f"has {key}={attributes(node)[key]}, which the custom operator does not know")


def _refuse(node: Node, why: str) -> None:
    raise CheckpointError(f"node '{excerpt(node['name'])}' {why}: use --op builtin")
