"""Which image size a network was made for, from the weights of its first fully connected layer."""

from typing import List, Mapping, Sequence

import numpy as np

from ..errors import CheckpointError
from ..system.text import excerpt
from .symbol import BUILTIN_OPERATOR, CUSTOM_OPERATOR, Graph, Node, attributes, flag, sizes

LARGEST = 512
_KEEP_THE_SIZE = ("Activation", "Flatten", "LeakyReLU", "Dropout", "identity", "tanh", "relu", "sigmoid")


def infer(graph: Graph, weights: Mapping[str, np.ndarray], preferred: Sequence[int] = ()) -> int:
    """Pixels a side of the images that fit.

    Pooling rounds down, so that several sizes may fit: a preferred one is taken first, then the smallest.

    Parameters
    ----------
    graph
        A symbol, from `symbol.parse`.
    weights
        Its weights.
    preferred
        Sizes to try first: those of the editions.

    Raises
    ------
    CheckpointError
        When no size up to 512 fits, or the network begins with something else than convolution, pooling and tanh.
    """
    nodes = graph["nodes"]
    before: List[Node] = []
    for node in nodes:
        if node["op"] == "FullyConnected":
            name = nodes[node["inputs"][1][0]]["name"] if len(node["inputs"]) > 1 else "its weight"
            if name not in weights or not weights[name].ndim:
                raise CheckpointError(f"the checkpoint lacks {excerpt(name)}")
            width = weights[name].shape[-1]
            break
        if node["op"] != "null":
            before.append(node)
    else:
        raise CheckpointError("the network has no fully connected layer to tell its input size from: give --input-size")
    for size in [*preferred, *range(1, LARGEST + 1)]:
        if _width(before, size) == width:
            return size
    name = excerpt(node["name"])
    raise CheckpointError(f"no image of up to {LARGEST} pixels gives the {width} inputs of {name}")


def _width(nodes: List[Node], size: int) -> int:
    """Inputs of the first fully connected layer for images of one channel; 0 when they are too small."""
    channels = 1
    for node in nodes:
        kind = node["op"]
        if kind == "Pooling" and flag(node, "global_pool"):
            size = 1
        elif kind in (CUSTOM_OPERATOR, BUILTIN_OPERATOR, "Pooling"):
            size = _windows(node, size)
            if size < 1:
                return 0
            if kind != "Pooling":
                channels = _first(node, "num_filter", 0)
        elif kind not in _KEEP_THE_SIZE:
            raise CheckpointError(
                f"the input size cannot be inferred through node '{excerpt(node['name'])}': give --input-size"
            )
    return channels * size * size


def _windows(node: Node, size: int) -> int:
    """How many windows of a convolution or a pool fit along `size` pixels."""
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
