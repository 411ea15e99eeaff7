"""The one mutator: damages bytes, JSON documents and symbols at random. `chance` is a random.Random."""

import copy
import itertools
import json
import random

from fashion_infer.graph import operators, symbol
from fashion_infer.graph.layers import Convolution, Dense, Flatten, MaxPool, Relu, Softmax, Tanh

ODD = [None, True, False, -1, 0, 63, 1.5, 1e308, 10**400, float("nan"), "", "x", "null", "\x1b[31m"]
ODD += [[], {}, [[]], [0], {"a": None}]


def damaged(chance, content, first=None):
    """Return a copy of bytes of which some are changed, deleted, zeroed or inserted.

    `first` limits the positions to the first bytes, where most formats have their structure.
    """
    content = bytearray(content)
    for _ in range(chance.choice([1, 1, 2, 8])):
        at, kind = chance.randrange(min(len(content), first or len(content)) or 1), chance.randrange(8)
        if kind < 5:
            content[at : at + 1] = bytes([chance.randrange(256)])
        elif kind == 5:
            content[at:at] = b"123456789"
        elif kind == 6:
            content[at : at + 4096] = bytes(len(content[at : at + 4096]))
        elif len(content) > 100:
            del content[at : at + chance.randrange(1, len(content))]
    return bytes(content)


def damage_json(chance, value):
    """Replace, delete or repeat one random value of a JSON document, at any depth."""
    while True:
        keys = list(value) if isinstance(value, dict) else range(len(value))
        if not keys:
            return
        key = chance.choice(keys)
        if not (isinstance(value[key], (dict, list)) and value[key] and chance.random() < 0.8):
            break
        value = value[key]
    what = chance.randrange(5)
    if what == 0:
        del value[key]
    elif what == 1 and isinstance(value, list):
        value.append(copy.deepcopy(value[key]))
    elif what == 2 and isinstance(value[key], int):
        value[key] += chance.choice([-1, 1, 100, -(2**31)])
    else:
        value[key] = copy.deepcopy(chance.choice(ODD))


SHAPE = (1, 14, 14)
NUMBERS = "0 1 2 3 5 7 13 14 15 28 100 4096 4097 65536 16777216 2147483647 2147483648 4294967296 -1 -2 -2147483648"
NUMBERS = [*NUMBERS.split(), "18446744073709551616"]
WORDS = "5.0 1e9 nan inf None True False true 0x10 5L NHWC NCHW NCDHW max avg sum lp valid full same tanh relu leaky"
WORDS += " prelu rrelu elu gelu float16 float64 null batch 0.1 -3.5 1e38 1e-38 () [] ( (,)"
WORDS = ["", " ", "\x00", "é" * 70, *WORDS.split()]


def bases():
    few = [Convolution(4, 3), Tanh(), MaxPool(), Flatten(), Dense(6), Tanh(), Dense(3), Softmax()]
    two = [Convolution(3, 3), Relu(), MaxPool(2, 2, True), Convolution(2, 3), Flatten(), Dense(3, False), Softmax()]
    found = [json.loads(symbol.build(few, SHAPE, operator)) for operator in ("custom", "builtin")]
    found.append(json.loads(symbol.build(two, SHAPE, "builtin", softmax_label=False)))
    old = copy.deepcopy(found[1])
    for node in old["nodes"]:
        node["attr"] = node.pop("attrs", {})
    old["attrs"] = {"mxnet_version": ["int", 1100]}
    return [*found, old, _branches()]


def _branches():
    """Return a network with batch normalisation, a PReLU, and a sum with the convolution's output."""
    nodes = json.loads(symbol.build([Convolution(4, 3), Dense(3)], SHAPE, "builtin"))["nodes"]
    weights = ["gamma", "beta", "moving_mean", "moving_var", "alpha"]
    nodes[3:3] = [{"op": "null", "name": name, "inputs": []} for name in weights]
    inputs = [[2, 0, 0], [3, 0, 0], [4, 0, 0], [5, 0, 1], [6, 0, 1]]
    nodes[8:8] = [
        {"op": "BatchNorm", "name": "norm", "inputs": inputs},
        {"op": "LeakyReLU", "name": "slope", "attrs": {"act_type": "prelu"}, "inputs": [[8, 0, 0], [7, 0, 0]]},
        {"op": "elemwise_add", "name": "sum", "inputs": [[9, 0, 0], [2, 0, 0]]},
    ]
    nodes[-1]["inputs"] = [[10, 0, 0], [11, 0, 0], [12, 0, 0]]
    return {"nodes": nodes, "arg_nodes": [0, 1, *range(3, 8), 11, 12], "heads": [[13, 0, 0]], "attrs": {}}


def symbols(seed, every_operator=()):
    """Yield damaged symbols, as text, without end. `every_operator` has further operators that nodes may get."""
    chance, starts = random.Random(seed), bases()
    names = list(operators.TABLE) * 4 + list(every_operator)
    while True:
        graph, kind = copy.deepcopy(chance.choice(starts)), chance.random()
        for _ in range(chance.choice([1, 1, 1, 2, 2, 3, 5])):
            if kind < 0.7:
                _change_a_node(graph, chance, names)
            else:
                damage_json(chance, graph)
        text = json.dumps(graph)
        for _ in range(chance.choice([1, 1, 3]) if kind > 0.9 else 0):
            at = chance.randrange(len(text))
            piece = chance.choice(['"', "}", "]", "[", ",", "9", "-", "\\u0000", "1e5", "null", text[at : at + 40], ""])
            text = text[:at] + piece + text[at + chance.choice([0, 1, 1, 20]) :]
        yield text


def _change_a_node(graph, chance, names):
    nodes = graph["nodes"]
    index = chance.randrange(len(nodes))
    node, what = nodes[index], chance.randrange(9)
    known = operators.TABLE.get(node["op"])
    if what == 0:
        node["op"] = chance.choice(names)
    elif what == 1:  # another operator, with valid attributes
        node["op"] = chance.choice(list(operators.TABLE))
        known = operators.TABLE[node["op"]]
        keys = [key for key in known.attributes if key in known.required or chance.random() < 0.3]
        node["attrs"] = {key: _fitting(known.attributes[key], chance) for key in keys}
        wanted = known.inputs(node["attrs"]) if index else 0
        node["inputs"] = (node["inputs"] + [[chance.randrange(index or 1), 0, 0] for _ in range(wanted)])[:wanted]
    elif what in (2, 3) and known and known.attributes:
        key = chance.choice(list(known.attributes))
        value = _fitting(known.attributes[key], chance) if what == 2 else _value(chance)
        node.setdefault("attrs", {})[key] = value
    elif what == 4 and node.get("attrs"):
        node["attrs"].pop(chance.choice(list(node["attrs"])))
    elif what == 5 and node["inputs"]:
        chance.choice(node["inputs"])[0] = chance.randrange(index)
    elif what == 6:
        graph["heads"] = [[chance.randrange(len(nodes)), 0, 0] for _ in range(chance.choice([1, 1, 2]))]
    elif what == 7:
        node["name"] = chance.choice(["data", "softmax_label", "", "a+b", "é\n", "x" * 70, nodes[0]["name"]])
    else:  # insert a copy after the node; nodes that read the node read the copy instead
        entries = itertools.chain(graph["heads"], *(later["inputs"] for later in nodes[index + 1 :]))
        for entry in entries:
            entry[0] += entry[0] >= index
        graph["arg_nodes"] = []
        twin = {**copy.deepcopy(node), "name": node["name"] + "_twin"}
        twin["inputs"][:1] = [[index, 0, 0]] * bool(twin["inputs"])
        nodes.insert(index + 1, twin)


def _fitting(values, chance):
    """Return a random text that is valid for an attribute, if one is found in 30 tries; else a likely one."""
    tries = (_value(chance) for _ in range(30))
    found = next((text for text in tries if values.fits(text)), None)
    likely = values.words.rpartition("one of ")[2].split(", ") if "one of" in values.words else ["2"]
    return chance.choice(likely) if found is None else found


def _value(chance):
    kind = chance.randrange(4)
    if kind < 2:
        return chance.choice((NUMBERS, WORDS)[kind])
    numbers = [chance.choice(NUMBERS[: 8 if chance.random() < 0.7 else None]) for _ in range(chance.choice([1, 2, 3]))]
    return f"({', '.join(numbers * 2 if kind == 3 and len(numbers) == 1 else numbers)})"
