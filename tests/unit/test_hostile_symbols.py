"""Malicious symbols: operators outside the list and inconsistent graphs never reach MXNet."""

import json
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import profiles
import pytest
import reference
import symbol_mutations
from hostile_checkpoints import LAYERS, SHAPE, SYMBOLS, changed, network, node, write_pair

from fashion_infer import _mxnet
from fashion_infer._mxnet import plugin
from fashion_infer.errors import CheckpointError, UsageError
from fashion_infer.graph import operators, symbol
from fashion_infer.graph.layers import Convolution, Dense, Flatten, Relu, Softmax, Tanh
from fashion_infer.inference.predictor import Predictor
from fashion_infer.library.fused import FusedNetwork
from fashion_infer.system.text import excerpt

ROOT = Path(__file__).resolve().parents[2]
MODES = ("operator", "fused")


def refused(found):
    for mode in MODES:
        with pytest.raises(CheckpointError) as error:
            Predictor(found, SHAPE, mode=mode)
        assert "\n" not in str(error.value) and len(str(error.value)) < 500


@pytest.fixture(scope="module")
def images():
    return reference.pixels(np.random.default_rng(3), (5, *SHAPE)).astype(np.uint8)


@pytest.mark.parametrize("stage, name", [(stage, name) for stage, names in SYMBOLS.items() for name in names])
def test_malicious_symbols_are_refused_at_their_stage(stage, name):
    """The operator `_Native`, for example, calls an address that the symbol gives."""
    found, stages = changed(network(), SYMBOLS[stage][name]), []
    try:
        stages.append("structure")
        graph = symbol.parse(found.symbol, "it")
        stages.append("operators")
        operators.check(graph, "it")
        stages.append("shapes")
    except CheckpointError:
        pass
    assert stages[-1] == stage
    refused(found)
    if stage == "structure":
        refused(found._replace(trusted=True))


def test_trusted_symbols_may_have_other_operators(images):
    odd = changed(network(), lambda g: node(g, "Flatten").update(op="Reshape", attrs={"shape": "(-1, 676)"}))
    refused(odd)
    wanted = Predictor(network(), SHAPE).predict(images)[0]
    for mode in MODES:
        got = Predictor(odd._replace(trusted=True), SHAPE, mode=mode).predict(images)[0]
        assert np.abs(got - wanted).max() < 1e-6


@pytest.mark.parametrize("classes", [1, 3, 12])
def test_another_number_of_classes(classes, tmp_path, invoke):
    prefix = write_pair(tmp_path / "net", network(layers=[Convolution(4, 3), Tanh(), Dense(classes), Softmax()]))
    code, _, _ = invoke("run", "--checkpoint", prefix, "--n", 10, "--data", "synthetic", "--backend", "cpu")
    assert code == 3


def test_mxnet_has_the_listed_operators_and_attributes():
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
    """Inputs have two numbers instead of three. MXNet prints nothing about upgrading the symbols."""

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


@pytest.mark.parametrize(
    "name", ["x" * 64, "y" * 4000, "a+b", "层\u0301🙂", 'q"uote\\', "node3", "_output", "", "a b/c"]
)
def test_layers_of_any_name_have_their_times(name, images):
    """In some cases the names share 63 characters or more, and the names of weights are similar."""
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
        assert [[record.shape[:2] for record in time.log[0]] for time in ours] == [[(5, 1)], [(5, 4)]]
        assert all(time.median > 0 for time in times)


@pytest.mark.parametrize("text", ["a\nb", "\x1b[31m", "x" * 200, "\ud800", "\u2028", "\x9b2J"])
def test_excerpts_in_messages_are_short_and_printable(text):
    assert len(excerpt(text)) < 80 and excerpt(text).isprintable()
    excerpt(text).encode()


def test_randomly_damaged_symbols(tmp_path):
    last = tmp_path / "symbol.json"
    for _ in range(profiles.pick(1, 80)):
        seed = random.randrange(2**31)
        program = [sys.executable, "tests/symbol_mutations.py", "120", str(seed), str(last)]
        done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, (
            f"seed {seed}: {last.read_text()[:9999]} {done.stdout[-5000:]} {done.stderr[-5000:]}"
        )
        ran, refused = map(int, done.stdout.split())
        assert ran > 10 and refused > 50


@pytest.mark.parametrize(
    "op, key, value",
    [
        ("Convolution", "layout", "NHWC"),
        ("Convolution", "unknown", "1"),
        ("Pooling", "layout", "NHWC"),
        ("Pooling", "unknown", "1"),
        ("Activation", "unknown", "1"),
        ("FullyConnected", "unknown", "1"),
        ("softmax", "unknown", "1"),
        ("Flatten", "unknown", "1"),
    ],
)
def test_a_node_with_an_unknown_attribute_is_not_fused(op, key, value):
    text = symbol.build(LAYERS, SHAPE, "builtin", softmax_label=False)
    found = network("builtin")
    FusedNetwork(text, found.weights, SHAPE)
    graph = json.loads(text)
    symbol.attributes(node(graph, op))[key] = value
    with pytest.raises(UsageError):
        FusedNetwork(json.dumps(graph), found.weights, SHAPE)
