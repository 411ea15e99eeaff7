"""Malicious symbols: operators outside the list and inconsistent graphs never reach MXNet."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import profiles
import pytest
import reference
import symbol_mutations
from hostile_checkpoints import SHAPE, SYMBOLS, changed, network, node, write_pair

from fashion_infer.errors import CheckpointError
from fashion_infer.graph import operators, structure, symbol
from fashion_infer.graph.layers import Convolution, Dense, Flatten, Relu, Softmax, Tanh
from fashion_infer.inference.predictor import Predictor
from fashion_infer.system.text import excerpt

ROOT = Path(__file__).resolve().parents[2]
MODES = ("operator", "fused")


def refusal(found, **options):
    """Return the error message, one line, with which both modes refuse a network."""
    lines = set()
    for mode in MODES:
        with pytest.raises(CheckpointError) as error:
            Predictor(found, SHAPE, mode=mode, **options)
        lines.add(str(error.value))
    (line,) = lines
    assert "\n" not in line and len(line) < 500
    return line


@pytest.fixture(scope="module")
def images():
    return reference.pixels(np.random.default_rng(3), (5, *SHAPE)).astype(np.uint8)


# ---- Operators.


@pytest.mark.parametrize("what", SYMBOLS)
def test_malicious_symbols_are_refused(what):
    """A malicious symbol is refused before it reaches MXNet.

    The operator `_Native`, for example, calls an address that the symbol gives.
    """
    change, words = SYMBOLS[what]
    line = refusal(changed(network(), change))
    assert words in line and ("--trust-symbol" in line) == ("has the operator" in line)


def test_trusted_symbols_may_have_other_operators_but_no_cycle(images):
    odd = changed(network(), lambda g: node(g, "Flatten").update(op="Reshape", attrs={"shape": "(-1, 676)"}))
    assert "shape=(-1, 676)" in refusal(odd)
    wanted = Predictor(network(), SHAPE).predict(images)[0]
    for mode in MODES:
        got = Predictor(odd._replace(trusted=True), SHAPE, mode=mode).predict(images)[0]
        assert np.abs(got - wanted).max() < 1e-6
    cyclic = changed(odd, lambda g: node(g, "Reshape")["inputs"][0].__setitem__(0, 9))
    assert "does not come before it" in refusal(cyclic._replace(trusted=True))


@pytest.mark.parametrize(
    "op, attributes, words",
    [
        ("New", {"num_filter": "-4"}, "num_filter=-4"),
        ("New", {"num_filter": "99999999999999999999"}, "num_filter=9999"),
        ("New", {"kernel": "(0, 0)"}, "kernel=(0, 0)"),
        ("New", {"kernel": "(3, 3, 3)"}, "kernel=(3, 3, 3)"),
        ("New", {"stride": "(2, 2)"}, "stride=(2, 2)"),
        ("Convolution", {"stride": "(0, 0)"}, "stride=(0, 0)"),
        ("Convolution", {"dilate": "(0, 1)"}, "dilate=(0, 1)"),
        ("Convolution", {"kernel": "(1000000, 1000000)"}, "kernel=(1000000, 1000000)"),
        ("Convolution", {"no_bias": "maybe"}, "no_bias=maybe"),
        ("Convolution", {"colour": "red"}, "has the attribute colour"),
        ("Pooling", {"kernel": None}, "lacks its kernel"),
        ("Pooling", {"pool_type": "median"}, "pool_type=median"),
        ("Pooling", {"pool_type": "lp"}, "lacks its p_value"),
        ("FullyConnected", {"num_hidden": "٣"}, "num_hidden="),
    ],
)
def test_attributes_out_of_range(op, attributes, words):
    def change(graph):
        values = node(graph, op)["attrs"]
        values.update({key: value for key, value in attributes.items() if value is not None})
        for key in [key for key, value in attributes.items() if value is None]:
            del values[key]

    assert words in refusal(changed(network("builtin" if op == "Convolution" else "custom"), change))


def test_too_few_inputs_and_heads_of_rank_4():
    assert "has 1 inputs, and a New with its attributes takes 2" in refusal(
        changed(network(), lambda g: node(g, "New")["inputs"].pop())
    )
    assert "has 0 inputs" in refusal(changed(network(), lambda g: node(g, "Flatten").update(inputs=[])))
    assert "has shape (1, 4, 13, 13) for 1 images: it must be (1, classes)" in refusal(
        changed(network(), lambda g: g.update(heads=[[4, 0, 0]]))
    )
    assert "output 0 of its node" in refusal(changed(network(), lambda g: g.update(heads=[[4, 1, 0]])))


@pytest.mark.parametrize("classes", [1, 3, 12])
def test_another_number_of_classes(classes, tmp_path, invoke):
    prefix = write_pair(tmp_path / "net", network(layers=[Convolution(4, 3), Tanh(), Dense(classes), Softmax()]))
    code, _, _ = invoke("run", "--checkpoint", prefix, "--n", 10, "--data", "synthetic", "--backend", "cpu")
    assert code == 3


def test_a_layer_that_would_fill_the_memory():
    def change(graph):
        node(graph, "Convolution")["attrs"].update(pad="(4096, 4096)", num_filter="16")

    assert "4122 MiB" in refusal(changed(network("builtin"), change))


def test_mxnet_has_the_listed_operators_and_attributes():
    """MXNet has each operator of the list, except ours, and accepts the list's attributes with an example value."""
    from fashion_infer import _mxnet
    from fashion_infer._mxnet import plugin

    plugin.load_operators()
    mx = _mxnet.load()
    known = set(symbol_mutations.every_operator(mx))
    assert set(operators.TABLE) <= known
    for name, operator in operators.TABLE.items():
        if name == "New":
            continue
        attributes = {key: values.example for key, values in operator.attributes.items()}
        graph = {"nodes": [{"op": "null", "name": str(i), "inputs": []} for i in range(operator.inputs(attributes))]}
        graph["nodes"].append(
            {"op": name, "name": "it", "inputs": [[i, 0, 0] for i in range(len(graph["nodes"]))], "attrs": attributes}
        )
        last = len(graph["nodes"]) - 1
        graph.update(arg_nodes=list(range(last)), heads=[[last, 0, 0]], attrs={"mxnet_version": ["int", 10901]})
        text = json.dumps(graph)
        operators.check(symbol.parse(text, "it"), "it")
        mx.sym.load_json(text)


@pytest.mark.parametrize(
    "version, key", [(1100, "attr"), (1300, "attr"), (10000, "attrs"), (10300, "attrs"), (800, "param")]
)
def test_symbols_of_old_mxnet_versions(version, key, images, capfd):
    """Symbols in the form of MXNet 0.8 to 1.3, with attributes for training, give the same scores.

    Inputs have two numbers instead of three. MXNet prints nothing about upgrading the symbols.
    """

    def change(graph):
        for n in graph["nodes"]:
            n[key] = {**n.pop("attrs", {}), "ctx_group": "dev1", "weight_lr_mult": "0.5"}
            n["inputs"] = [entry[:2] for entry in n["inputs"]]
        graph["attrs"] = {"mxnet_version": ["int", version]}

    wanted = Predictor(network(), SHAPE).predict(images)[0]
    for mode in MODES:
        np.testing.assert_allclose(
            Predictor(changed(network(), change), SHAPE, mode=mode).predict(images)[0], wanted, atol=1e-6
        )
    assert capfd.readouterr().err == ""


# ---- Structure.


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda g: g["nodes"][2]["inputs"][0].__setitem__(0, 1.0), "damaged input"),
        (lambda g: g["nodes"][2]["inputs"].__setitem__(0, 3), "damaged input"),
        (lambda g: g["nodes"][2]["inputs"].__setitem__(0, [0, 0, 0, 0]), "damaged input"),
        (lambda g: g["nodes"][2].update(inputs={}), "is not a list"),
        (lambda g: g["nodes"][2].update(attrs=[]), "damaged attributes"),
        (lambda g: g["nodes"][2].update(control_deps=[0]), "control dependencies"),
        (lambda g: g["nodes"].__setitem__(2, None), "not a JSON object"),
        (lambda g: g.update(arg_nodes=[True]), "is not a node"),
        (lambda g: g.update(arg_nodes=[-1]), "is not a node"),
        (lambda g: g.update(heads=[[0, 0, 0]]), "output is a variable"),
        (lambda g: g.update(heads=5), "is not a list"),
        (lambda g: g["nodes"][2].update(name="a\nb"), r"'a\nb' has control characters"),
        (lambda g: g["nodes"][2].update(name="\x1b[2J"), "control characters"),
        (lambda g: g["nodes"][2].update(attrs={"kernel": "1" * 5000}), "attribute of 5000 characters"),
    ],
)
def test_inconsistent_graphs(change, words):
    found = changed(network(), change)
    assert words in refusal(found) and words in refusal(found._replace(trusted=True))


@pytest.mark.parametrize(
    "text, words",
    [
        ("[" * 100_000, "nested too deeply"),
        ('{"nodes":' * 20_000, "nested too deeply"),
        ("[1]", "not a JSON object"),
        ('{"nodes": [' + "1" * 5000 + "]}", "a number of 5000 digits"),
        ('{"nodes": [NaN]}', "the value NaN"),
        (" " * (structure.LARGEST_TEXT + 1), "more than 4 MiB"),
    ],
)
def test_json_that_is_too_deep_or_too_large(text, words):
    assert words in refusal(network()._replace(symbol=text))


@pytest.mark.parametrize(
    "name", ["x" * 64, "y" * 4000, "a+b", "层\u0301🙂", 'q"uote\\', "node3", "_output", "", "a b/c"]
)
def test_layers_of_any_name_have_their_times(name, images):
    """Two layers get their own times in both modes, whatever their names.

    In some cases the names share 63 characters or more, and the names of weights are similar.
    """
    two = [Convolution(4, 3), Tanh(), Convolution(3, 3), Relu(), Flatten(), Dense(10), Softmax()]
    plain = network(layers=two)
    renamed = {"new0": name, "new1": f"{name}2", "new0_weight": f"{name}_w", "new1_weight": f"{name}2_w"}

    def change(graph):
        for n in graph["nodes"]:
            n["name"] = renamed.get(n["name"], n["name"])

    weights = {renamed.get(key, key): value for key, value in plain.weights.items()}
    found = changed(plain._replace(weights=weights), change)
    for mode in MODES:
        scores, times = Predictor(found, SHAPE, mode=mode).predict(images)
        np.testing.assert_array_equal(scores, Predictor(plain, SHAPE, mode=mode).predict(images)[0])
        ours = [time for time in times if time.custom]
        chains = [name, f"{name}2"] if mode == "operator" else [f"{name}+activation0", f"{name}2+activation1"]
        assert [time.name for time in ours] == chains
        assert [[record.shape[:2] for record in time.log] for time in ours] == [[(5, 1)], [(5, 4)]]
        assert all(time.seconds > 0 for time in times)


@pytest.mark.parametrize("text", ["a\nb", "\x1b[31m", "x" * 200, "\ud800", "\u2028", "\x9b2J"])
def test_excerpts_in_messages_are_short_and_printable(text):
    assert len(excerpt(text)) < 80 and excerpt(text).isprintable()
    excerpt(text).encode()


# ---- Fuzzing.


def test_randomly_damaged_symbols(tmp_path):
    """Randomly damaged symbols run or are refused in one line; no try ends by a signal or an unexpected exception.

    Each run draws other symbols.
    """
    count = profiles.pick(250, 20_000)
    program = [sys.executable, "tests/symbol_mutations.py", "--count", str(count), "--finds", str(tmp_path)]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    ran, refused = map(int, re.search(r"(\d+) ran, (\d+) were refused", done.stdout).groups())
    assert ran > count / 10 and refused > count / 2, done.stdout


# ---- Messages of MXNet.


def test_mxnets_messages_are_not_printed(tmp_path, capfd, images):
    """MXNet prints nothing on stderr, and our error has MXNet's message without its position in the source."""
    odd = changed(network(), lambda g: node(g, "Pooling")["attrs"].update(kernel="(40, 40)"))
    for mode in MODES:
        with pytest.raises(CheckpointError) as error:
            Predictor(odd, SHAPE, mode=mode)
        text = str(error.value)
        assert text.startswith("the network does not fit the images: Error in operator 'pooling0': Check failed")
        assert "src/" not in text and ".cc" not in text and len(text) < 400
    assert capfd.readouterr().err == ""
