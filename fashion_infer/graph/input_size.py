"""Inference of a network's image size from the weights of its first fully connected layer."""

from typing import Dict, List, Mapping, Sequence, Tuple

import numpy as np

from ..errors import CheckpointError
from ..system.text import excerpt
from .operators import TABLE
from .symbol import BUILTIN_OPERATOR, CUSTOM_OPERATOR, Graph, Node, attributes, flag, sizes

LARGEST = 512
# Number of channels and pixels per side of a node's output; (0, 0) if the image is too small for the node.
_Item = Tuple[int, int]
_ONE_VALUE_A_CHANNEL = ("mean", "max", "sum")


def infer(graph: Graph, weights: Mapping[str, np.ndarray], preferred: Sequence[int] = ()) -> int:
    """Return the pixels per side of a network's images: a preferred size that fits, else the smallest up to 512."""
    nodes = graph["nodes"]
    first = next((number for number, node in enumerate(nodes) if node["op"] == "FullyConnected"), None)
    if first is None:
        raise CheckpointError(
            "the input size cannot be inferred, as there is no fully connected layer: give --input-size"
        )
    dense = nodes[first]
    name = nodes[dense["inputs"][1][0]]["name"] if len(dense["inputs"]) > 1 else "its weight"
    if name not in weights or not weights[name].ndim:
        raise CheckpointError(f"the checkpoint lacks {excerpt(name)}")
    width = weights[name].shape[-1]
    for size in [*preferred, *range(1, LARGEST + 1)]:
        channels, side = _item(nodes[:first], dense["inputs"][0][0], size)
        if channels * side * side == width:
            return size
    name = excerpt(dense["name"])
    raise CheckpointError(f"no image of up to {LARGEST} pixels gives the {width} inputs of {name}")


def _item(nodes: Sequence[Node], last: int, size: int) -> _Item:
    items: Dict[int, _Item] = {}
    for number, node in enumerate(nodes):
        given = [items[entry[0]] for entry in node["inputs"] if entry[0] in items]
        if node["op"] == "null":
            if node["name"] == "data":
                items[number] = (1, size)
        elif given:
            items[number] = (0, 0) if (0, 0) in given else _after(node, given)
    return items.get(last, (0, 0))


def _after(node: Node, given: List[_Item]) -> _Item:
    kind, (channels, size) = node["op"], given[0]
    if kind in (CUSTOM_OPERATOR, BUILTIN_OPERATOR, "Pooling"):
        side = 1 if kind == "Pooling" and flag(node, "global_pool") else _windows(node, size)
        if side < 1:
            return 0, 0
        return (channels if kind == "Pooling" else _first(node, "num_filter", 0)), side
    if kind in _ONE_VALUE_A_CHANNEL:
        return channels, 1
    if kind in ("Concat", "concat"):
        return sum(item[0] for item in given), size
    if kind in ("Pad", "pad"):
        return channels, size + sum(sizes(node, "pad_width")[-2:])
    if kind not in TABLE:
        raise CheckpointError(
            f"the input size cannot be inferred through node '{excerpt(node['name'])}': give --input-size"
        )
    return max(given, key=lambda item: item[1])  # element-wise; an input with one value per channel is broadcast


def _windows(node: Node, size: int) -> int:
    """Return the number of windows of a convolution or a pool that fit along `size` pixels."""
    kernel, stride, dilate = (_first(node, key, 1) for key in ("kernel", "stride", "dilate"))
    if min(kernel, stride, dilate) < 1:
        raise CheckpointError(f"node '{excerpt(node['name'])}' has a window, a stride or a dilation of 0")
    span = size + 2 * _first(node, "pad", 0) - dilate * (kernel - 1) - 1
    if span < 0:
        return 0
    full = attributes(node).get("pooling_convention") == "full"
    return (-(-span // stride) if full else span // stride) + 1


def _first(node: Node, key: str, default: int) -> int:
    given = sizes(node, key)
    return given[0] if given else default
