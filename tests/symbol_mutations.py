"""Symbols that no program wrote: networks of the kind that is run here, damaged at random.

`symbols` gives an endless stream of them. Run as a program, this file lets the checks and both modes loose on some:

    python tests/symbol_mutations.py --count 100000 --seed 1

Every try runs in a child that has MXNet loaded already, fifty tries to a child. A child that ends by a signal, or an
exception that is none of the package's own, is a find: its symbol is written to --finds, and the exit code is 1.
"""

import argparse
import copy
import json
import os
import random
import select
import signal
import sys
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np

from fashion_infer.graph import operators, symbol
from fashion_infer.graph.layers import Convolution, Dense, Flatten, MaxPool, Relu, Softmax, Tanh

SHAPE = (1, 14, 14)
_PER_CHILD, _SECONDS = 50, 300
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
    """Networks to begin with, as graphs."""
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
    nodes[4]["inputs"] = [[2, 0, 0]]  # both activations read the convolution
    nodes.insert(5, {"op": "elemwise_add", "name": "sum", "inputs": [[3, 0, 0], [4, 0, 0]]})
    for index in (6, 7):
        nodes[index]["attrs"] = {}
    nodes[8]["inputs"] = [[5, 0, 0], [6, 0, 0], [7, 0, 0]]
    branches.update(arg_nodes=[0, 1, 6, 7], heads=[[8, 0, 0]])
    found.append(branches)
    old = copy.deepcopy(found[1])
    for node in old["nodes"]:
        node["attr"] = node.pop("attrs", {})
    old["attrs"] = {"mxnet_version": ["int", 1100]}
    return [*found, old]


def symbols(seed, every_operator=()):
    """An endless stream of symbols as text.

    Parameters
    ----------
    seed
        The same gives the same.
    every_operator
        Names of operators that nodes get besides those of the table.
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
    elif what == 1:  # an operator with attributes that it may have
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
    else:  # a copy behind it, which the readers of the original get
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
    """A text that an attribute may be, where chance finds one."""
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
    """Any value of the JSON, however deep."""
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


# ---- tries -----------------------------------------------------------------------------------


def attempt(text, mode, generous):
    """Take a symbol the whole way: "ran", or "refused" by an error of the package; anything else is raised.

    With `generous` every weight is there in the shape that MXNet infers, so that a changed network runs.
    """
    from fashion_infer import pipeline, predictor
    from fashion_infer._mxnet import bound
    from fashion_infer.checkpoints.checkpoint import Checkpoint, check_size
    from fashion_infer.errors import FashionInferError
    from fashion_infer.graph import input_size

    class Generous(bound.BoundGraph):
        def _fit(self, weights):
            shapes = {key: shape for key, shape in self._infer_shapes(1).items() if key != self._data}
            try:
                check_size(shapes)
            except ValueError as error:
                raise bound.CheckpointError(str(error)) from None
            labels = [key for key in shapes if self._graph["nodes"][int(key[4:])]["name"].endswith("label")]
            return {key: self._mx.nd.ones(shape) for key, shape in shapes.items() if key not in labels}

    try:
        graph = symbol.parse(text, "it")
        operators.check(graph, "it")
        weights = WEIGHTS
        size = SHAPE[1] if generous else input_size.infer(graph, weights, [SHAPE[1]])
        predictor.BoundGraph = Generous if generous else bound.BoundGraph
        ready = predictor.Predictor(Checkpoint(text, weights, {}), (1, size, size), mode=mode)
        scores, times = ready.predict(np.full((2, 1, size, size), 9, np.uint8))
        pipeline.check_scores(scores)
        assert scores.ndim == 2 and len(scores) == 2 and times, (scores.shape, times)
        return "ran"
    except FashionInferError as error:
        assert "\n" not in str(error) and len(str(error)) < 1000, str(error)
        return "refused"


def _weights():
    shapes = {"new0_weight": (4, 1, 3, 3), "convolution0_weight": (4, 1, 3, 3), "fullyconnected0_weight": (6, 144)}
    shapes.update(fullyconnected0_bias=(6,), fullyconnected1_weight=(3, 6), fullyconnected1_bias=(3,))
    return {name: np.full(shape, 0.01, np.float32) for name, shape in shapes.items()}


WEIGHTS = _weights()


def _child(tries, pipe):
    """Run tries, with one byte to the pipe as each begins and one as it ends."""
    for index, text in tries:
        for mode in ("operator", "fused"):
            os.write(pipe, b"b")
            try:
                os.write(pipe, b"." if attempt(text, mode, index % 3 > 0) == "ran" else b"r")
            except BaseException:
                os.write(pipe, b"x")
                traceback.print_exc()
    os._exit(0)


def _run(tries):
    """Run tries in a child: what each came to, two letters a try, and how the child ended."""
    said, to_say = os.pipe()
    child = os.fork()
    if not child:
        os.close(said)
        _child(tries, to_say)
    os.close(to_say)
    heard = b""
    while True:
        if not select.select([said], [], [], _SECONDS)[0]:
            os.kill(child, signal.SIGKILL)
        more = os.read(said, 65536)
        if not more:
            break
        heard += more
    os.close(said)
    _, status = os.waitpid(child, 0)
    return heard.decode(), status


def run(count, seed, finds):
    """Try so many symbols; how many ran, how many were refused, and the finds as (kind, text)."""
    from fashion_infer import _mxnet
    from fashion_infer._mxnet import plugin

    plugin.load_operators()
    mx = _mxnet.load()
    stream = symbols(seed, every_operator(mx))
    ran = refused = 0
    found = []
    waiting = []
    for index in range(count):
        waiting.append((index, next(stream)))
        if len(waiting) < _PER_CHILD and index < count - 1:
            continue
        while waiting:
            heard, status = _run(waiting)
            ends = heard.replace("b", "")
            ran, refused = ran + ends.count("."), refused + ends.count("r")
            for place, letter in enumerate(ends):
                if letter == "x":
                    found.append(("exception", waiting[place // 2][1]))
            if not status:
                break
            place = len(ends) // 2
            found.append((f"status {status} in mode {'of'[len(ends) % 2]}", waiting[place][1]))
            waiting = waiting[place + 1 :]
        waiting = []
        if finds and found:
            for number, (kind, text) in enumerate(found):
                Path(finds).mkdir(parents=True, exist_ok=True)
                (Path(finds) / f"{seed}-{number}.txt").write_text(f"{kind}\n{text}\n", encoding="utf-8")
        if index and index % 5000 < _PER_CHILD:
            print(index + 1, "tried:", ran, "ran,", refused, "refused,", len(found), "finds", flush=True)
    return ran, refused, found


def every_operator(mx):
    """Names of all operators of MXNet and of our library."""
    import ctypes

    size, names = ctypes.c_uint(), ctypes.POINTER(ctypes.c_char_p)()
    mx.base.check_call(mx.base._LIB.MXListAllOpNames(ctypes.byref(size), ctypes.byref(names)))
    return [names[index].decode() for index in range(size.value)]


def main():
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--finds", metavar="FOLDER")
    options = parser.parse_args()
    seed = random.randrange(2**31) if options.seed is None else options.seed
    ran, refused, found = run(options.count, seed, options.finds)
    print(f"seed {seed}: {options.count} symbols in two modes: {ran} ran, {refused} were refused, {len(found)} finds")
    for kind, text in found[:10]:
        print(kind, text[:20000])
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
