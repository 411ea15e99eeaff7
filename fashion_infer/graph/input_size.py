"""Which image size a network was made for, from the weights of its first fully connected layer."""

from typing import Any, Dict, List, Mapping

import numpy as np

from ..checkpoints import editions
from ..errors import CheckpointError
from . import network

LARGEST = 512


def infer(graph: Dict[str, Any], weights: Mapping[str, np.ndarray]) -> int:
    """The side, in pixels, of the images that fit.

    Pooling rounds down, so that several sizes may fit: an edition's own is preferred, then the smallest.

    Parameters
    ----------
    graph
        A symbol, from `network.parse`.
    weights
        Its weights.

    Raises
    ------
    CheckpointError
        When no size up to 512 fits, or the network begins with something else than convolution, pooling and tanh.
    """
    nodes = graph["nodes"]
    steps: List[Dict[str, Any]] = []
    for node in nodes:
        if node["op"] == "FullyConnected":
            name = nodes[node["inputs"][1][0]]["name"]
            if name not in weights:
                raise CheckpointError(f"the checkpoint lacks {name}")
            width = weights[name].shape[-1]
            break
        if node["op"] != "null":
            steps.append(node)
    else:
        raise CheckpointError("the network has no fully connected layer to tell its input size from: give --input-size")
    known = [edition.input_size for edition in editions.EDITIONS.values()]
    for size in [*known, *range(1, LARGEST + 1)]:
        if _width(steps, size) == width:
            return size
    raise CheckpointError(f"no image of up to {LARGEST} pixels gives the {width} inputs of {node['name']}")


def _width(steps: List[Dict[str, Any]], side: int) -> int:
    """Inputs of the first fully connected layer for images of one channel; 0 when they are too small."""
    channels = 1
    for node in steps:
        values = network.attributes(node)
        kind = node["op"]
        if kind in (network.CUSTOM_OPERATOR, network.BUILTIN_OPERATOR, "Pooling"):
            if kind == "Pooling" and values.get("global_pool", "False").lower() in ("true", "1"):
                side = 1
                continue
            kernel, stride, pad = (_first(values, key, default) for key, default in _WINDOW)
            dilate = _first(values, "dilate", 1)
            span = side + 2 * pad - dilate * (kernel - 1) - 1
            if span < 0:
                return 0
            full = values.get("pooling_convention") == "full"
            side = (-(-span // stride) if full else span // stride) + 1
            if kind != "Pooling":
                channels = int(values["num_filter"])
        elif kind not in ("Activation", "Flatten", "LeakyReLU", "Dropout", "identity", "tanh", "relu", "sigmoid"):
            raise CheckpointError(f"the input size cannot be told through node '{node['name']}': give --input-size")
    return channels * side * side


_WINDOW = (("kernel", 1), ("stride", 1), ("pad", 0))


def _first(values: Mapping[str, str], key: str, default: int) -> int:
    text = values.get(key, "").strip("()[] ").split(",")[0].strip().rstrip("L")
    try:
        return int(text) if text else default
    except ValueError:
        raise CheckpointError(f"attribute {key}={values[key]} is not a size") from None
