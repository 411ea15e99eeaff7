"""MXNet symbols as plain JSON: built from layers, read from text, and asked what is in them. MXNet is not needed.

A symbol travels as its JSON text (what MXNet writes to PREFIX-symbol.json), parsed it is called a graph. Symbols of
MXNet 0.11 to 1.9 are read: node attributes are found under `attrs`, `attr` or `param`.
"""

import itertools
import json
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ..errors import CheckpointError
from . import layers as kinds

CUSTOM_OPERATOR = "New"
BUILTIN_OPERATOR = "Convolution"
OPERATORS = ("custom", "builtin")
_ATTRIBUTE_KEYS = ("attrs", "attr", "param")
_VERSION = 10901  # of MXNet: with it the symbol is read as it stands, without the updates of old formats

Graph = Dict[str, Any]
Node = Dict[str, Any]


def build(
    layers: Sequence[kinds.Layer], shape: kinds.Shape, operator: str = "custom", softmax_label: bool = True
) -> str:
    """The symbol of a chain of layers.

    Parameters
    ----------
    layers
        In the order of the network.
    shape
        Of one item: (C,H,W), or (values,).
    operator
        "custom" for convolution layers that are our `New`, "builtin" for MXNet's `Convolution`.
    softmax_label
        Whether scores come from `SoftmaxOutput` with its variable `softmax_label`, as in the course's networks, or from
        `softmax`, which has no label.

    Returns
    -------
    str
        The symbol as JSON, node by node what MXNet itself writes: input `data`, nodes named as `layers.walk` does.

    Raises
    ------
    UsageError
        When a layer does not fit what comes before it.
    """
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
        # MXNet gives the variables that it makes itself the attributes of their node; those of convolutions are ours.
        own = {} if isinstance(step.layer, kinds.Convolution) else attributes
        inputs = [last, *(add("null", name, own) for name in step.parameters)]
        if op == "SoftmaxOutput":
            inputs.append(add("null", f"{step.name}_label", {}))
        last = add(op, step.name, attributes, inputs)
    return _text(nodes, last)


def _operator(layer: kinds.Layer, operator: str, softmax_label: bool) -> Tuple[str, Dict[str, Any]]:
    """MXNet's name of a layer, and its attributes."""
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
    outputs = [2 if node["op"] == "Pooling" else 1 for node in nodes]  # Pooling's second is oneDNN's workspace
    graph = {
        "nodes": nodes,
        "arg_nodes": [index for index, node in enumerate(nodes) if node["op"] == "null"],
        "node_row_ptr": [0, *itertools.accumulate(outputs)],
        "heads": [[last, 0, 0]],
        "attrs": {"mxnet_version": ["int", _VERSION]},
    }
    return json.dumps(graph, indent=2)


def parse(text: str, source: str) -> Graph:
    """Read a symbol's JSON and check that its graph hangs together.

    MXNet trusts the indices in the file, and a wrong one can crash the process: they are checked here.

    Parameters
    ----------
    text
        The JSON.
    source
        Where it came from, for messages.

    Raises
    ------
    CheckpointError
        When it is not JSON, or not a graph.
    """
    try:
        graph = json.loads(text)
        nodes = graph["nodes"]
        if not nodes:
            raise ValueError("it has no nodes")
        for index, node in enumerate(nodes):
            _check_node(index, node)
        for index in graph["arg_nodes"]:
            if nodes[index]["op"] != "null":
                raise ValueError(f"argument {index} is not a variable")
        for entry in graph["heads"]:
            nodes[entry[0]]
        if not graph["heads"]:
            raise ValueError("it has no output")
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        detail = f"no {error}" if isinstance(error, KeyError) else error
        raise CheckpointError(f"{source} is not an MXNet symbol: {detail}") from None
    return graph


def _check_node(index: int, node: Node) -> None:
    if not isinstance(node["op"], str) or not isinstance(node["name"], str):
        raise ValueError(f"node {index} has no name")
    for entry in list(node["inputs"]) + list(node.get("control_deps", [])):
        source_index = entry[0] if isinstance(entry, list) else entry
        if not isinstance(source_index, int) or not 0 <= source_index < index:
            raise ValueError(f"node '{node['name']}' takes its input from a node that does not come before it")
        if isinstance(entry, list) and not all(isinstance(i, int) and 0 <= i < 64 for i in entry[1:]):
            raise ValueError(f"node '{node['name']}' has a damaged input")
    for key in _ATTRIBUTE_KEYS:
        if not all(isinstance(v, str) for v in node.get(key, {}).values()):
            raise ValueError(f"node '{node['name']}' has an attribute that is not text")


def attributes(node: Node) -> Dict[str, str]:
    """A node's attributes, whichever of MXNet's formats wrote them; the node's own dictionary, made if missing."""
    for key in _ATTRIBUTE_KEYS:
        if key in node:
            return node[key]
    return node.setdefault("attrs", {})


def sizes(node: Node, key: str) -> List[int]:
    """The whole numbers of an attribute, however MXNet or Python 2 spelt them: "(2, 2)", "[2,2]", "2", "(2L, 2L)".

    Raises
    ------
    CheckpointError
        When the attribute holds something else.
    """
    text = attributes(node).get(key, "")
    words = [word.strip().rstrip("L") for word in text.strip("()[] ").split(",")]
    try:
        return [int(word) for word in words if word]
    except ValueError:
        raise CheckpointError(f"attribute {key}={text} is not a size") from None


def flag(node: Node, key: str) -> bool:
    """Whether an attribute is set and true."""
    return attributes(node).get(key, "False").lower() in ("true", "1")


def computing(graph: Graph) -> Dict[int, Tuple[str, str]]:
    """Name and operator of every node that computes something, by its number, in the order of the network."""
    nodes = enumerate(graph["nodes"])
    return {number: (node["name"], node["op"]) for number, node in nodes if node["op"] != "null"}


def convolutions(graph: Graph, operator: Optional[str] = None) -> List[str]:
    """Names of the convolution nodes, in the order of the network; of one operator ("New") or of both."""
    wanted = (operator,) if operator else (CUSTOM_OPERATOR, BUILTIN_OPERATOR)
    return [node["name"] for node in graph["nodes"] if node["op"] in wanted]


def chain(graph: Graph, first: int, last: int) -> List[int]:
    """Numbers of the nodes from `first` to `last`, along each node's first input."""
    numbers = [last]
    while numbers[-1] != first and graph["nodes"][numbers[-1]]["inputs"]:
        numbers.append(graph["nodes"][numbers[-1]]["inputs"][0][0])
    return numbers[::-1]
