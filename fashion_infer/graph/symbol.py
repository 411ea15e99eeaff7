"""MXNet symbols (0.11 to 1.9) as JSON text, or parsed as graphs: builds, reads and queries them without MXNet."""

import itertools
import json
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ..errors import CheckpointError
from . import layers as kinds
from . import structure
from .structure import Graph, Node

CUSTOM_OPERATOR = "New"
BUILTIN_OPERATOR = "Convolution"
BATCH_NORM = "BatchNorm"
FIRST_MOVING = 3  # index of the moving mean among the inputs of a BatchNorm; the moving variance comes next


def build(
    layers: Sequence[kinds.Layer], shape: kinds.Shape, operator: str = "custom", softmax_label: bool = True
) -> str:
    """Build the symbol of a chain of layers for items of a shape; UsageError if a layer does not fit."""
    nodes: List[Node] = []

    def add(op: str, name: str, attributes: Dict[str, Any], inputs: Sequence[int] = ()) -> int:
        values = {key: str(value) for key, value in attributes.items()}
        node = {"op": op, "name": name, "inputs": [[index, 0, 0] for index in inputs]}
        nodes.append({**node, "attrs": values} if values else node)
        return len(nodes) - 1

    last = add("null", "data", {})
    prefix = "new" if operator == "custom" else "convolution"
    for step in kinds.walk(layers, shape, prefix):
        op, attributes = _operator(step.layer, operator, softmax_label)
        # A variable that MXNet creates for a node gets the node's attributes. The weights of convolutions are
        # created before their nodes, and have none.
        own = {} if isinstance(step.layer, kinds.Convolution) else attributes
        inputs = [last, *(add("null", name, own) for name in step.parameters)]
        if op == "SoftmaxOutput":
            inputs.append(add("null", f"{step.name}_label", {}))
        last = add(op, step.name, attributes, inputs)
    return _text(nodes, last)


def _operator(layer: kinds.Layer, operator: str, softmax_label: bool) -> Tuple[str, Dict[str, Any]]:
    if isinstance(layer, kinds.Convolution):
        sizes = {"kernel": (layer.kernel_size,) * 2, "num_filter": layer.filters}
        return (CUSTOM_OPERATOR, sizes) if operator == "custom" else (BUILTIN_OPERATOR, {**sizes, "no_bias": True})
    if isinstance(layer, kinds.MaxPool):
        convention = {"pooling_convention": "full"} if layer.full else {}
        sizes = {"kernel": (layer.size,) * 2, **convention, "pool_type": "max", "stride": (layer.step,) * 2}
        return "Pooling", sizes
    if isinstance(layer, kinds.Dense):
        return "FullyConnected", {**({} if layer.bias else {"no_bias": True}), "num_hidden": layer.units}
    if isinstance(layer, kinds.Tanh):
        return "Activation", {"act_type": "tanh"}
    if isinstance(layer, kinds.Relu):
        return "Activation", {"act_type": "relu"}
    if isinstance(layer, kinds.Flatten):
        return "Flatten", {}
    return "SoftmaxOutput" if softmax_label else "softmax", {}


def _text(nodes: List[Node], last: int) -> str:
    outputs = [2 if node["op"] == "Pooling" else 1 for node in nodes]  # Pooling's second output is oneDNN's workspace
    graph = {
        "nodes": nodes,
        "arg_nodes": [index for index, node in enumerate(nodes) if node["op"] == "null"],
        "node_row_ptr": [0, *itertools.accumulate(outputs)],
        "heads": [[last, 0, 0]],
        "attrs": {"mxnet_version": ["int", structure.VERSION]},
    }
    return json.dumps(graph, indent=2)


def parse(text: str, source: str) -> Graph:
    """Read a symbol's JSON and check that its graph is consistent (see `structure.read`); CheckpointError if not."""
    try:
        return structure.read(text)
    except ValueError as error:
        raise CheckpointError(f"{source} is not an MXNet symbol: {error}") from None


def variables(graph: Graph) -> List[str]:
    return [node["name"] for node in graph["nodes"] if node["op"] == "null"]


def auxiliary(graph: Graph) -> List[int]:
    """Return the numbers of the means and variances of batch normalisations, which MXNet stores apart from weights."""
    norms = (node for node in graph["nodes"] if node["op"] == BATCH_NORM)
    return [entry[0] for node in norms for entry in node["inputs"][FIRST_MOVING:]]


def slopes(graph: Graph) -> List[int]:
    """Return the numbers of the nodes that are slopes of PReLUs. A PReLU has one slope per channel, or one for all."""
    nodes = (node for node in graph["nodes"] if attributes(node).get("act_type") == "prelu")
    return [entry[0] for node in nodes for entry in node["inputs"][1:]]


def attributes(node: Node) -> Dict[str, str]:
    """Return a node's attributes, in any of MXNet's formats. The result is the node's own dictionary, not a copy."""
    for key in structure.ATTRIBUTE_KEYS:
        if key in node:
            return node[key]
    return node.setdefault("attrs", {})


def sizes(node: Node, key: str) -> List[int]:
    """Parse the integers of an attribute as MXNet and Python 2 wrote them: "(2, 2)", "2", "(2L, 2L)"; [] if missing."""
    text = attributes(node).get(key, "")
    if text == "None":
        return []
    words = [word.strip().rstrip("L") for word in text.strip("()[] ").split(",")]
    try:
        return [int(word) for word in words if word]
    except ValueError:
        raise CheckpointError(f"attribute {key}={text} is not a size") from None


def flag(node: Node, key: str) -> bool:
    return attributes(node).get(key, "False").lower() in ("true", "1")


def computing(graph: Graph) -> Dict[int, Tuple[str, str]]:
    """Return the name and the operator of every node that is not a variable, by its number, in network order."""
    nodes = enumerate(graph["nodes"])
    return {number: (node["name"], node["op"]) for number, node in nodes if node["op"] != "null"}


def convolutions(graph: Graph, operator: Optional[str] = None) -> List[str]:
    """Return the names of the convolution nodes in network order, for one operator ("New") or for both."""
    wanted = (operator,) if operator else (CUSTOM_OPERATOR, BUILTIN_OPERATOR)
    return [node["name"] for node in graph["nodes"] if node["op"] in wanted]


def chain(graph: Graph, first: int, last: int) -> List[int]:
    """Return the numbers of the nodes from `first` to `last`, along each node's first input."""
    numbers = [last]
    while numbers[-1] != first and graph["nodes"][numbers[-1]]["inputs"]:
        numbers.append(graph["nodes"][numbers[-1]]["inputs"][0][0])
    return numbers[::-1]
