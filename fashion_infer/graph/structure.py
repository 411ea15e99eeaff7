"""Parser that rebuilds a symbol's JSON into a consistent graph, from checked values only.

MXNet trusts the file: a wrong index, type or number of inputs can crash the process.
"""

import json
from typing import Any, Dict, List

from ..system.text import excerpt, printable

Graph = Dict[str, Any]
Node = Dict[str, Any]

VERSION = 10901  # MXNet 1.9.1; with this number, MXNet reads the symbol without converting it from an old format
LARGEST_TEXT = 4 << 20  # bytes; fa2017's symbol has 3,000
_MOST_NODES = 2_000  # a ResNet of 152 layers has about 1,000
_LONGEST_NAME, _LONGEST_ATTRIBUTE = 4096, 4096  # characters
_MOST_OUTPUTS = 64  # per node
_MOST_DIGITS = 20  # Python takes quadratic time in the number of digits
# Symbols of MXNet 0.11 to 1.9 have a node's attributes under one or two of these keys; the first key takes precedence.
ATTRIBUTE_KEYS = ("attrs", "attr", "param")


def read(text: str) -> Graph:
    """Read a consistent graph from JSON; the message of a ValueError says why it is none, as a clause about "it"."""
    if len(text) > LARGEST_TEXT:
        raise ValueError(f"it has more than {LARGEST_TEXT >> 20} MiB")
    try:
        graph = json.loads(text, parse_int=_whole, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("its JSON is nested too deeply") from None
    _expect(isinstance(graph, dict), "it is not a JSON object")
    nodes = _list(graph, "nodes")
    _expect(nodes, "it has no nodes")
    _expect(len(nodes) <= _MOST_NODES, f"it has more than {_MOST_NODES} nodes")
    nodes = [_node(index, node) for index, node in enumerate(nodes)]
    _check_variables(nodes)
    for index in _list(graph, "arg_nodes"):
        _expect(type(index) is int and 0 <= index < len(nodes), f"argument {excerpt(index)} is not a node")
        _expect(nodes[index]["op"] == "null", f"argument {index} is not a variable")
    heads = [_entry(entry, len(nodes), "its output", "is none of its nodes") for entry in _list(graph, "heads")]
    _expect(heads, "it has no output")
    _expect(all(nodes[head[0]]["op"] != "null" for head in heads), "its output is a variable")
    return {
        "nodes": nodes,
        "arg_nodes": [index for index, node in enumerate(nodes) if node["op"] == "null"],
        "heads": heads,
        "attrs": {"mxnet_version": ["int", VERSION]},
    }


def _node(index: int, node: Any) -> Node:
    _expect(isinstance(node, dict), f"node {index} is not a JSON object")
    for key in ("op", "name"):
        _expect(key in node, f"node {index} has no '{key}'")
        _expect(isinstance(node[key], str), f"node {index} has no {key} that is text")
    name = f"node '{excerpt(node['name'])}'"
    _expect(len(node["name"]) <= _LONGEST_NAME, f"{name} has a name of {len(node['name'])} characters")
    _expect(printable(node["name"]), f"{name} has control characters in its name")
    _expect(node["op"].isascii() and node["op"].isprintable(), f"{name} has an operator name with special characters")
    _expect("subgraphs" not in node or node["subgraphs"] == [], f"{name} has subgraphs")
    _expect(node.get("control_deps", []) == [], f"{name} has control dependencies")
    wrong = "takes its input from a node that does not come before it"
    inputs = [_entry(entry, index, name, wrong) for entry in _list(node, "inputs")]
    _expect(not inputs or node["op"] != "null", f"{name} is a variable with inputs")
    return {"op": node["op"], "name": node["name"], "inputs": inputs, "attrs": _attributes(node, name)}


def _attributes(node: Node, name: str) -> Dict[str, str]:
    found: Dict[str, str] = {}
    for key in reversed(ATTRIBUTE_KEYS):
        given = node.get(key, {})
        _expect(isinstance(given, dict), f"{name} has damaged attributes")
        for value in given.values():
            _expect(isinstance(value, str), f"{name} has an attribute that is not text")
            _expect(len(value) <= _LONGEST_ATTRIBUTE, f"{name} has an attribute of {len(value)} characters")
        found.update(given)
    return found


def _entry(entry: Any, before: int, what: str, wrong: str) -> List[int]:
    """Read a reference to a node's output: node index, output index, and version (0 if it is missing)."""
    _expect(isinstance(entry, list) and len(entry) in (2, 3), f"{what} has a damaged input")
    _expect(all(type(number) is int for number in entry), f"{what} has a damaged input")
    _expect(0 <= entry[0] < before, f"{what} {wrong}")
    _expect(all(0 <= number < _MOST_OUTPUTS for number in entry[1:]), f"{what} has a damaged input")
    return [*entry, 0][:3]


def _check_variables(nodes: List[Node]) -> None:
    seen = set()
    for node in nodes:
        if node["op"] == "null":
            _expect(node["name"] not in seen, f"two variables are called '{excerpt(node['name'])}'")
            seen.add(node["name"])


def _list(holder: Dict[str, Any], key: str) -> List[Any]:
    _expect(key in holder, f"it has no '{key}'")
    _expect(isinstance(holder[key], list), f"its '{key}' is not a list")
    return holder[key]


def _expect(condition: Any, otherwise: str) -> None:
    if not condition:
        raise ValueError(otherwise)


def _whole(digits: str) -> int:
    _expect(len(digits) <= _MOST_DIGITS, f"it has a number of {len(digits)} digits")
    return int(digits)


def _no_constant(name: str) -> None:
    raise ValueError(f"it has the value {name}")
