"""Yields an endless sequence of randomly damaged symbols, made from supported networks."""

import copy
import json
import random

from fashion_infer.graph import operators, symbol
from fashion_infer.graph.layers import Convolution, Dense, Flatten, MaxPool, Relu, Softmax, Tanh

SHAPE = (1, 14, 14)
_NUMBERS = ["0", "1", "2", "3", "5", "7", "13", "14", "15", "28", "100", "4096", "4097", "65536", "16777216"]
_NUMBERS += ["2147483647", "2147483648", "4294967295", "4294967296", "18446744073709551616", "-1", "-2", "-2147483648"]
_WORDS = ["", " ", "5.0", "1e9", "nan", "inf", "None", "True", "False", "true", "0x10", "5L", "NHWC", "NCHW", "NCDHW"]
_WORDS += ["max", "avg", "sum", "lp", "valid", "full", "same", "tanh", "relu", "leaky", "prelu", "rrelu", "elu", "gelu"]
_WORDS += [
    "float16",
    "float64",
    "null",
    "batch",
    "0.1",
    "-3.5",
    "1e38",
    "1e-38",
    "()",
    "[]",
    "(",
    "(,)",
    "\x00",
    "é" * 70,
]
_VALUES = [
    None,
    True,
    False,
    0,
    1,
    -1,
    63,
    64,
    10**30,
    1.5,
    1e999,
    "",
    "x",
    "null",
    [],
    {},
    [[]],
    [0],
    [0, 0, 0],
    {"a": 1},
]


def bases():
    """Return the graphs of valid networks, which are then damaged."""
    few = [Convolution(4, 3), Tanh(), MaxPool(), Flatten(), Dense(6), Tanh(), Dense(3), Softmax()]
    two = [
        Convolution(3, 3),
        Relu(),
        MaxPool(2, 2, True),
        Convolution(2, 3),
        Relu(),
        Flatten(),
        Dense(3, False),
        Softmax(),
    ]
    found = [json.loads(symbol.build(few, SHAPE, "custom")), json.loads(symbol.build(few, SHAPE, "builtin"))]
    found.append(json.loads(symbol.build(two, SHAPE, "builtin", softmax_label=False)))
    branches = json.loads(symbol.build([Convolution(4, 3), Tanh(), Relu(), Dense(3)], SHAPE, "builtin"))
    nodes = branches["nodes"]
    nodes[4]["inputs"] = [[2, 0, 0]]  # both activations read the convolution's output
    nodes.insert(5, {"op": "elemwise_add", "name": "sum", "inputs": [[3, 0, 0], [4, 0, 0]]})
    for index in (6, 7):
        nodes[index]["attrs"] = {}
    nodes[8]["inputs"] = [[5, 0, 0], [6, 0, 0], [7, 0, 0]]
    branches.update(arg_nodes=[0, 1, 6, 7], heads=[[8, 0, 0]])
    found.append(branches)
    found.append(_normalised())
    old = copy.deepcopy(found[1])
    for node in old["nodes"]:
        node["attr"] = node.pop("attrs", {})
    old["attrs"] = {"mxnet_version": ["int", 1100]}
    return [*found, old]


def _normalised():
    """Return a network with batch normalisation, a PReLU, and a residual sum after a convolution."""
    nodes = json.loads(symbol.build([Convolution(4, 3), Dense(3)], SHAPE, "builtin"))["nodes"]
    weights = ["gamma", "beta", "moving_mean", "moving_var", "alpha"]
    nodes[3:3] = [{"op": "null", "name": name, "inputs": []} for name in weights]
    norm = {
        "op": "BatchNorm",
        "name": "norm",
        "inputs": [[2, 0, 0], *([i, 0, (i > 4 and 1) or 0] for i in range(3, 7))],
    }
    slope = {"op": "LeakyReLU", "name": "slope", "attrs": {"act_type": "prelu"}, "inputs": [[8, 0, 0], [7, 0, 0]]}
    total = {"op": "elemwise_add", "name": "sum", "inputs": [[9, 0, 0], [2, 0, 0]]}
    nodes[8:8] = [norm, slope, total]
    nodes[-1]["inputs"] = [[10, 0, 0], [11, 0, 0], [12, 0, 0]]
    return {"nodes": nodes, "arg_nodes": [0, 1, *range(3, 8), 11, 12], "heads": [[13, 0, 0]], "attrs": {}}


def symbols(seed, every_operator=()):
    """Yield damaged symbols, as text, without end.

    The same seed yields the same symbols. `every_operator` has names of operators that nodes may get in addition to
    those of `operators.TABLE`.
    """
    chance, starts = random.Random(seed), bases()
    names = [name for name in operators.TABLE] * 4 + list(every_operator)
    while True:
        graph = copy.deepcopy(chance.choice(starts))
        kind = chance.random()
        for _ in range(chance.choice([1, 1, 1, 2, 2, 3, 5])):
            if kind < 0.7:
                _change_a_node(graph, chance, names)
            else:
                _change_a_value(graph, chance)
        text = json.dumps(graph)
        if kind > 0.9:
            text = _damaged(text, chance)
        yield text


def _change_a_node(graph, chance, names):
    nodes = graph["nodes"]
    index = chance.randrange(len(nodes))
    node = nodes[index]
    what = chance.randrange(9)
    if what == 0:
        node["op"] = chance.choice(names)
    elif what == 1:  # another operator, with valid attributes
        node["op"] = name = chance.choice(list(operators.TABLE))
        known = operators.TABLE[name]
        node["attrs"] = {key: _fitting(known.attributes[key], chance) for key in known.required}
        for key in known.attributes:
            if chance.random() < 0.3:
                node["attrs"][key] = _fitting(known.attributes[key], chance)
        wanted = known.inputs(node["attrs"]) if index else 0
        node["inputs"] = (node["inputs"] + [[chance.randrange(index or 1), 0, 0] for _ in range(wanted)])[:wanted]
    elif what in (2, 3) and node["op"] in operators.TABLE:
        key = chance.choice(list(operators.TABLE[node["op"]].attributes) or ["kernel"])
        values = operators.TABLE[node["op"]].attributes.get(key)
        node.setdefault("attrs", {})[key] = _fitting(values, chance) if values and what == 2 else _text(chance)
    elif what == 4 and node.get("attrs"):
        node["attrs"].pop(chance.choice(list(node["attrs"])))
    elif what == 5 and node["inputs"]:
        chance.choice(node["inputs"])[0] = chance.randrange(index)
    elif what == 6:
        graph["heads"] = [[chance.randrange(len(nodes)), 0, 0] for _ in range(chance.choice([1, 1, 2]))]
    elif what == 7:
        node["name"] = chance.choice(
            ["data", "softmax_label", "", "a+b", "é\n", "x" * 70, chance.choice(nodes)["name"]]
        )
    else:  # insert a copy after the node; nodes that read the node read the copy instead
        for later in nodes[index + 1 :]:
            for entry in later["inputs"]:
                entry[0] += entry[0] >= index
        for entry in graph["heads"]:
            entry[0] += entry[0] >= index
        graph["arg_nodes"] = []
        twin = copy.deepcopy(node)
        twin["name"] += "_twin"
        if twin["inputs"]:
            twin["inputs"][0] = [index, 0, 0]
        nodes.insert(index + 1, twin)


def _fitting(values, chance):
    """Return a random text that is valid for an attribute, if one is found in 30 tries; else a likely one."""
    for _ in range(30):
        text = _text(chance)
        if values.fits(text):
            return text
    return chance.choice(values.words.rpartition("one of ")[2].split(", ")) if "one of" in values.words else "2"


def _text(chance):
    kind = chance.randrange(4)
    if kind == 0:
        return chance.choice(_NUMBERS)
    if kind == 1:
        return chance.choice(_WORDS)
    numbers = [
        chance.choice(_NUMBERS[: 8 if chance.random() < 0.7 else None]) for _ in range(chance.choice([1, 2, 2, 2, 3]))
    ]
    return f"({', '.join(numbers * 2 if kind == 3 and len(numbers) == 1 else numbers)})"


def _change_a_value(graph, chance):
    """Change, delete or repeat a random value at any depth of the JSON."""
    holder, key, path = {"": graph}, "", graph
    while isinstance(path, (dict, list)) and path and (holder == {"": graph} or chance.random() < 0.85):
        holder = path
        key = chance.choice(list(path)) if isinstance(path, dict) else chance.randrange(len(path))
        path = holder[key]
    what = chance.randrange(4)
    if what == 0:
        del holder[key]
    elif what == 1 and isinstance(holder, list):
        holder.append(copy.deepcopy(path))
    elif what == 2 and isinstance(path, int):
        holder[key] = path + chance.choice([-1, 1, 100, -(2**31)])
    else:
        holder[key] = copy.deepcopy(chance.choice(_VALUES))
    if not isinstance(graph.get("nodes"), list) or not all(isinstance(n, dict) and "op" in n for n in graph["nodes"]):
        return
    if not isinstance(graph.get("heads"), list):
        return


def _damaged(text, chance):
    for _ in range(chance.choice([1, 1, 3])):
        at = chance.randrange(len(text))
        piece = chance.choice(['"', "}", "]", "[", ",", "9", "-", "\\u0000", "1e5", "null", text[at : at + 40], ""])
        text = text[:at] + piece + text[at + chance.choice([0, 1, 1, 20]) :]
    return text
