"""Networks as MXNet symbols: built from an edition, read from text, and rewritten from one operator to another.

A symbol travels as its JSON text (what MXNet writes to PREFIX-symbol.json), so that a checkpoint can be listed,
checked and rewritten before MXNet is loaded. Symbols of MXNet 0.11 to 1.9 are read: node attributes are found under
`attrs`, `attr` or `param`.
"""

import contextlib
import json
from typing import Any, Dict, List, Optional, Tuple

from .. import _mxnet
from ..checkpoints import editions
from ..errors import CheckpointError
from ..library import operators

CUSTOM_OPERATOR = "New"
BUILTIN_OPERATOR = "Convolution"
_ATTRIBUTE_KEYS = ("attrs", "attr", "param")


def build(edition: str, operator: str = "custom") -> str:
    """The network of an edition.

    Parameters
    ----------
    edition
        A name in `editions.EDITIONS`.
    operator
        "custom" for convolution layers that are our `New`, "builtin" for MXNet's `Convolution`.

    Returns
    -------
    str
        The symbol as JSON: input `data`, output `softmax`, nodes named as the course named them.
    """
    spec = editions.get(edition)
    operators.load_into_mxnet()
    mx = _mxnet.load()
    kind = CUSTOM_OPERATOR if operator == "custom" else BUILTIN_OPERATOR
    counts: Dict[str, int] = {}

    def name(base: str) -> str:
        counts[base] = counts.get(base, -1) + 1
        return f"{base}{counts[base]}"

    def fully_connected(x, units: int):
        return mx.sym.FullyConnected(x, num_hidden=units, name=name("fullyconnected"))

    def tanh(x):
        return mx.sym.Activation(x, act_type="tanh", name=name("activation"))

    x = mx.sym.Variable("data")
    for layer in spec.features:
        if isinstance(layer, editions.Convolution):
            node = name(kind.lower())
            weight = mx.sym.Variable(node + "_weight")
            sizes = {"kernel": (layer.kernel, layer.kernel), "num_filter": layer.filters, "name": node}
            if operator == "custom":
                x = mx.sym.New(x, weight, **sizes)
            else:
                x = mx.sym.Convolution(x, weight, no_bias=True, **sizes)
        elif isinstance(layer, editions.Tanh):
            x = tanh(x)
        else:
            window = (layer.size, layer.size)
            x = mx.sym.Pooling(x, kernel=window, stride=window, pool_type="max", name=name("pooling"))
    x = mx.sym.Flatten(x, name=name("flatten"))
    x = tanh(fully_connected(x, spec.hidden))
    x = fully_connected(x, len(spec.class_names))
    return mx.sym.SoftmaxOutput(x, name="softmax").tojson()


def parse(text: str, source: str) -> Dict[str, Any]:
    """Read a symbol's JSON and check that its graph hangs together.

    MXNet trusts the indices in the file, and a wrong one can crash the process, so they are checked here.

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


def attributes(node: Dict[str, Any]) -> Dict[str, str]:
    """A node's attributes, whichever of MXNet's formats wrote them; the node's own dictionary, made if missing."""
    for key in _ATTRIBUTE_KEYS:
        if key in node:
            return node[key]
    return node.setdefault("attrs", {})


def convolution_layers(graph: Dict[str, Any], operator: Optional[str] = None) -> List[str]:
    """Names of the convolution nodes, in the order of the network; of one operator ("New") or of both."""
    kinds = (operator,) if operator else (CUSTOM_OPERATOR, BUILTIN_OPERATOR)
    return [node["name"] for node in graph["nodes"] if node["op"] in kinds]


def layers(graph: Dict[str, Any]) -> List[Tuple[str, str]]:
    """(name, operator) of every node that computes something, in the order of the network."""
    return [(node["name"], node["op"]) for node in graph["nodes"] if node["op"] != "null"]


def with_operator(graph: Dict[str, Any], operator: str) -> Dict[str, Any]:
    """The same network with its convolution layers run by "custom" (`New`) or "builtin" (`Convolution`).

    Raises
    ------
    CheckpointError
        When a `Convolution` does what `New` can't: a bias, padding, groups, a stride or dilation other than 1.
    """
    graph = json.loads(json.dumps(graph))
    for node in graph["nodes"]:
        if operator == "builtin" and node["op"] == CUSTOM_OPERATOR:
            node["op"] = BUILTIN_OPERATOR
            attributes(node)["no_bias"] = "True"
        elif operator == "custom" and node["op"] == BUILTIN_OPERATOR:
            _make_custom(node)
    return graph


def taking_pixels(graph: Dict[str, Any]) -> Dict[str, Any]:
    """The same network with every `Convolution` that `New` can stand for turned into one.

    To the fused mode both are the same, but MXNet's type inference lets only `New` take uint8 data, so that the images
    need not be widened on the host.
    """
    graph = json.loads(json.dumps(graph))
    for node in graph["nodes"]:
        if node["op"] == BUILTIN_OPERATOR:
            with contextlib.suppress(CheckpointError):
                _make_custom(node)
    return graph


def _make_custom(node: Dict[str, Any]) -> None:
    _check_plain(node)
    node["op"] = CUSTOM_OPERATOR
    values = attributes(node)
    for key in [k for k in values if k not in ("kernel", "num_filter")]:
        del values[key]


def _check_plain(node: Dict[str, Any]) -> None:
    values = attributes(node)
    plain = {"stride": "1", "dilate": "1", "pad": "0", "num_group": "1"}
    for key, wanted in plain.items():
        given = [part.strip() for part in values.get(key, wanted).strip("()[] ").split(",") if part.strip()]
        if any(part.rstrip("L") != wanted for part in given):
            raise CheckpointError(
                f"node '{node['name']}' has {key}={values[key]}, which the custom operator can't do: use --op builtin"
            )
    if values.get("no_bias", "False").lower() not in ("true", "1"):
        raise CheckpointError(
            f"node '{node['name']}' has a bias, which the custom operator can't add: use --op builtin"
        )
