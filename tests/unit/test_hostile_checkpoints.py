"""Checkpoints that somebody made to break this program, or to take it over: a checkpoint is data."""

import json
import os
import re
import resource
import struct
import subprocess
import sys
from pathlib import Path

import hostile_hdf5
import numpy as np
import profiles
import pytest
import reference
import symbol_mutations

from fashion_infer import pipeline
from fashion_infer.checkpoints import checkpoint, confined, hdf5, load, params_file
from fashion_infer.errors import CheckFailed, CheckpointError
from fashion_infer.graph import operators, rewrite, structure, symbol
from fashion_infer.graph.layers import Convolution, Dense, Flatten, MaxPool, Relu, Softmax, Tanh, walk
from fashion_infer.graph.text import shown
from fashion_infer.predictor import Predictor

ROOT = Path(__file__).resolve().parents[2]
LAYERS = [Convolution(4, 3), Tanh(), MaxPool(), Flatten(), Dense(6), Tanh(), Dense(10), Softmax()]
SHAPE = (1, 28, 28)
MODES = ("operator", "fused")


def network(operator="custom", gain=1.0, seed=0, layers=LAYERS):
    """A small network of 28x28 pixels."""
    prefix = {"custom": "new", "builtin": "convolution"}[operator]
    rng, weights = np.random.default_rng(seed), {}
    for step in walk(layers, SHAPE, prefix):
        for name, shape in step.parameters.items():
            weights[name] = (gain * rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)
    weights[f"{prefix}0_weight"] /= 100  # pixels go up to 255
    return checkpoint.Checkpoint(symbol.build(layers, SHAPE, operator), weights, {})


def write_pair(prefix, found):
    """MXNet's pair of files, as text and by NumPy alone."""
    Path(f"{prefix}-symbol.json").write_text(found.symbol, encoding="utf-8")
    Path(f"{prefix}-0001.params").write_bytes(params({f"arg:{name}": array for name, array in found.weights.items()}))
    return str(prefix)


def params(arrays):
    """A .params file as MXNet 1.9.1 writes it."""
    codes = {"float32": 0, "float64": 1, "float16": 2, "uint8": 3, "int32": 4, "int8": 5, "int64": 6}
    parts = [struct.pack("<QQQ", 0x112, 0, len(arrays))]
    for array in arrays.values():
        parts.append(struct.pack("<Iii", 0xF993FAC9, 0, array.ndim) + struct.pack(f"<{array.ndim}q", *array.shape))
        parts.append(struct.pack("<iii", 1, 0, codes[str(array.dtype)]) + array.tobytes())
    parts.append(struct.pack("<Q", len(arrays)))
    parts += [struct.pack("<Q", len(name.encode())) + name.encode() for name in arrays]
    return b"".join(parts)


def changed(found, change):
    graph = json.loads(found.symbol)
    change(graph)
    return found._replace(symbol=json.dumps(graph))


def node(graph, op):
    return next(n for n in graph["nodes"] if n["op"] == op)


def refusal(found, **options):
    """The one line with which both modes refuse a network."""
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


# ---- operators -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "op", ["_Native", "_NDArray", "_backward_Convolution", "_fashion_infer_network", "_sg_mkldnn_conv", "Custom", "exp"]
)
def test_an_operator_that_is_not_in_the_list_never_reaches_mxnet(op):
    """`_Native` calls through a pointer that it takes from `info`."""
    attributes = {"info": "0x41414141", "need_top_grad": "False"}
    line = refusal(changed(network(), lambda g: node(g, "Flatten").update(op=op, attrs=attributes)))
    assert f"has the operator {op}" in line and "--trust-symbol" in line


def test_trust_lifts_the_list_and_not_the_structure(images):
    odd = changed(network(), lambda g: node(g, "Flatten").update(op="Reshape", attrs={"shape": "(0, -1)"}))
    wanted = Predictor(network(), SHAPE).predict(images)[0]
    for mode in MODES:
        got = Predictor(odd._replace(trusted=True), SHAPE, mode=mode).predict(images)[0]
        assert np.abs(got - wanted).max() < 1e-6
    cyclic = changed(odd, lambda g: node(g, "Reshape")["inputs"][0].__setitem__(0, 9))
    assert "does not come before it" in refusal(cyclic._replace(trusted=True))


@pytest.mark.parametrize(
    "op, attributes, words",
    [
        ("New", {"num_filter": None}, "lacks its num_filter"),
        ("New", {"num_filter": "5.0"}, "num_filter=5.0, which is not a whole number"),
        ("New", {"num_filter": "-4"}, "num_filter=-4"),
        ("New", {"num_filter": "99999999999999999999"}, "num_filter=9999"),
        ("New", {"kernel": "(0, 0)"}, "kernel=(0, 0)"),
        ("New", {"kernel": "(3, 3, 3)"}, "kernel=(3, 3, 3)"),
        ("New", {"stride": "(2, 2)"}, "stride=(2, 2)"),
        ("New", {"layout": "NHWC"}, "layout=NHWC"),
        ("Convolution", {"num_group": "0"}, "num_group=0"),
        ("Convolution", {"stride": "(0, 0)"}, "stride=(0, 0)"),
        ("Convolution", {"dilate": "(0, 1)"}, "dilate=(0, 1)"),
        ("Convolution", {"kernel": "(1000000, 1000000)"}, "kernel=(1000000, 1000000)"),
        ("Convolution", {"no_bias": "maybe"}, "no_bias=maybe"),
        ("Convolution", {"colour": "red"}, "has the attribute colour"),
        ("Pooling", {"stride": "(0, 0)"}, "stride=(0, 0)"),
        ("Pooling", {"kernel": None}, "lacks its kernel"),
        ("Pooling", {"pad": "(2, 2)"}, "as large as its kernel"),
        ("Pooling", {"pool_type": "lp"}, "pool_type=lp"),
        ("FullyConnected", {"num_hidden": "-1"}, "num_hidden=-1"),
        ("FullyConnected", {"num_hidden": "٣"}, "num_hidden="),
        ("Activation", {"act_type": "x\x1b[31m"}, r"act_type=x\x1b[31m"),
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
    assert "has 1 inputs, and a New like it takes 2" in refusal(
        changed(network(), lambda g: node(g, "New")["inputs"].pop())
    )
    assert "has 0 inputs" in refusal(changed(network(), lambda g: node(g, "Flatten").update(inputs=[])))
    assert "has shape (1, 4, 13, 13) for 1 images: it must be (1, classes)" in refusal(
        changed(network(), lambda g: g.update(heads=[[4, 0, 0]]))
    )
    assert "its output is not the first one" in refusal(changed(network(), lambda g: g.update(heads=[[4, 1, 0]])))


@pytest.mark.parametrize("classes", [1, 3, 12])
def test_another_number_of_classes(classes, tmp_path, invoke):
    prefix = write_pair(tmp_path / "net", network(layers=[Convolution(4, 3), Tanh(), Dense(classes), Softmax()]))
    code, _, err = invoke("run", "--checkpoint", prefix, "--n", 10, "--data", "synthetic", "--backend", "cpu")
    assert code == 3 and f"the network tells {classes} classes apart, where the images are of 10" in err


def test_a_layer_that_would_fill_the_memory():
    def change(graph):
        node(graph, "Convolution")["attrs"].update(pad="(4096, 4096)", num_filter="16")

    assert "makes 4122 MiB of one image" in refusal(changed(network("builtin"), change))


def test_every_operator_of_the_list_is_one_of_mxnets():
    """An attribute of the list that MXNet does not have would be a promise that nobody keeps."""
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
def test_old_symbols_with_the_attributes_of_training(version, key, images, capfd):
    """As MXNet 0.11 to 1.3 wrote them, with and without the last number of an entry; MXNet's upgrade says nothing."""

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


# ---- structure -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda g: g["nodes"][2]["inputs"][0].__setitem__(0, True), "damaged input"),
        (lambda g: g["nodes"][2]["inputs"][0].__setitem__(0, 1.0), "damaged input"),
        (lambda g: g["nodes"][2]["inputs"].__setitem__(0, 3), "damaged input"),
        (lambda g: g["nodes"][2]["inputs"].__setitem__(0, [0, 0, 0, 0]), "damaged input"),
        (lambda g: g["nodes"][2].update(inputs={}), "is no list"),
        (lambda g: g["nodes"][2].update(attrs=[]), "damaged attributes"),
        (lambda g: g["nodes"][2].update(subgraphs=[{}]), "graphs of its own"),
        (lambda g: g["nodes"][2].update(control_deps=[0]), "waits for others"),
        (lambda g: g["nodes"].__setitem__(2, None), "no JSON object"),
        (lambda g: g.update(arg_nodes=[True]), "is no node"),
        (lambda g: g.update(arg_nodes=[-1]), "is no node"),
        (lambda g: g.update(heads=[[0, 0, 0]]), "output is a variable"),
        (lambda g: g.update(heads=5), "is no list"),
        (lambda g: g["nodes"][1].update(name="data"), "two variables are called 'data'"),
        (lambda g: g["nodes"][2].update(name="a\nb"), r"'a\nb' has control characters"),
        (lambda g: g["nodes"][2].update(name="\x1b[2J"), "control characters"),
        (lambda g: g["nodes"][2].update(name="x" * 5000), "a name of 5000 characters"),
        (lambda g: g["nodes"][2].update(attrs={"kernel": "1" * 5000}), "attribute of 5000 characters"),
        (lambda g: g["nodes"].extend([g["nodes"][0]] * 3000), "more than 2000 nodes"),
    ],
)
def test_graphs_that_do_not_hang_together(change, words):
    found = changed(network(), change)
    assert words in refusal(found) and words in refusal(found._replace(trusted=True))


@pytest.mark.parametrize(
    "text, words",
    [
        ("[" * 100_000, "nested too deeply"),
        ('{"nodes":' * 20_000, "nested too deeply"),
        ("[1]", "no JSON object"),
        ('{"nodes": [' + "1" * 5000 + "]}", "a number of 5000 digits"),
        ('{"nodes": [NaN]}', "the value NaN"),
        (" " * (structure.LARGEST_TEXT + 1), "more than 4 MiB"),
    ],
)
def test_json_of_any_depth_and_size(text, words):
    assert words in refusal(network()._replace(symbol=text))


@pytest.mark.parametrize(
    "name", ["x" * 64, "y" * 4000, "a+b", "层\u0301🙂", 'q"uote\\', "node3", "_output", "", "a b/c"]
)
def test_layers_of_any_name_have_their_times(name, images):
    """Two layers whose names share 63 characters and more, in both modes, with weights of like names."""
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
def test_what_a_message_shows_is_short_and_on_one_line(text):
    assert len(shown(text)) < 80 and shown(text).isprintable()
    shown(text).encode()


# ---- fuzzing ---------------------------------------------------------------------------------


def test_random_damage_to_symbols_ends_in_one_line(tmp_path):
    """Other symbols in every run; 100,000 of them gave no signal and no exception of another kind."""
    count = profiles.pick(250, 20_000)
    program = [sys.executable, "tests/symbol_mutations.py", "--count", str(count), "--finds", str(tmp_path)]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    ran, refused = map(int, re.search(r"(\d+) ran, (\d+) were refused", done.stdout).groups())
    assert ran > count / 10 and refused > count / 2, done.stdout


# ---- what is fused ---------------------------------------------------------------------------


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
def test_an_attribute_that_the_planner_does_not_know_keeps_a_node_out(op, key, value):
    from fashion_infer.errors import UsageError
    from fashion_infer.library.fused import FusedNetwork

    text = symbol.build(LAYERS, SHAPE, "builtin", softmax_label=False)
    found = network("builtin")
    FusedNetwork(text, found.weights, SHAPE)
    graph = json.loads(text)
    symbol.attributes(node(graph, op))[key] = value
    with pytest.raises(UsageError, match=f"'.*' cannot be fused: .*{key}"):
        FusedNetwork(json.dumps(graph), found.weights, SHAPE)


def test_a_convolution_of_another_layout_is_none_of_ours(images):
    """MXNet's CPU build refuses such a convolution: so does the fused mode, where it ran as NCHW."""
    other = changed(network("builtin"), lambda g: node(g, "Convolution")["attrs"].update(layout="NHWC"))
    graph = rewrite.taking_pixels(symbol.parse(other.symbol, "it"))
    assert node(graph, "Convolution")["attrs"]["layout"] == "NHWC"
    with pytest.raises(CheckpointError, match="layout=NHWC.*--op builtin"):
        rewrite.with_operator(graph, "custom")
    for change in ({"kernel": "(3, 2)"}, {"unknown": "1"}):
        graph = json.loads(network("builtin").symbol)
        node(graph, "Convolution")["attrs"].update(change)
        assert node(rewrite.taking_pixels(graph), "Convolution")


# ---- HDF5 ------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", hostile_hdf5.WEIGHTS)
def test_an_object_that_is_no_weight_is_refused_before_it_is_read(what, tmp_path):
    make, words = hostile_hdf5.WEIGHTS[what]
    path = hostile_hdf5.small(tmp_path / "a.h5", make)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(CheckpointError, match="not a whole HDF5 checkpoint") as error:
        hdf5.load(path)
    assert words in str(error.value) and "\n" not in str(error.value)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kB


def test_weights_that_the_network_does_not_name_are_not_read(tmp_path):
    def more(weights):
        weights[hostile_hdf5.WEIGHT] = np.ones((10, 784), np.float32)
        weights.create_dataset("more", (400_000, 7200), np.int8, chunks=(1, 7200))

    found = hdf5.load(hostile_hdf5.small(tmp_path / "a.h5", more))
    assert set(found.weights) == {hostile_hdf5.WEIGHT, hostile_hdf5.BIAS}


@pytest.mark.parametrize("edition", ["fa1999", ["fa2017"], np.float32(3), b"fa2017\xff", ""])
def test_an_edition_that_is_none(edition, tmp_path, invoke):
    path = hostile_hdf5.small(tmp_path / "a.h5", edition=edition)
    code, _, err = invoke("run", "--checkpoint", path, "--n", 10)
    assert code == 3 and "edition" in err and len(err.strip().splitlines()) == 1, err


def test_the_confined_process_gives_what_the_file_holds(tmp_path):
    rng = np.random.default_rng(4)
    weight = rng.standard_normal((10, 784)).astype(np.float32)
    path = hostile_hdf5.small(tmp_path / "a.h5", weight, edition="fa2017", seed=3, score=0.1 + 0.2, what="é")
    found, own = confined.load(path), hdf5.load(path)
    assert found.symbol == own.symbol and found.attributes == own.attributes and found.attributes["score"] == 0.1 + 0.2
    assert found.weights[hostile_hdf5.WEIGHT].tobytes() == weight.tobytes()
    assert {name: array.shape for name, array in found.weights.items()} == {
        name: array.shape for name, array in own.weights.items()
    }


def test_a_file_that_the_library_follows_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr(confined, "_CPU_SECONDS", 1)
    with pytest.raises(CheckpointError, match="not a whole HDF5 checkpoint"):
        load.load(hostile_hdf5.endless(tmp_path / "a.h5"))


@pytest.mark.parametrize(
    "does, words",
    [
        ("while True: pass", "1 s were not enough"),
        ("import os; os.kill(os.getpid(), 11)", "died of it"),
        ("print('{}')", "died of it"),
        ("import time; time.sleep(60)", "could not be read in 2 s"),
    ],
)
def test_whatever_the_confined_process_does(does, words, tmp_path, monkeypatch):
    code = f"import sys; del sys.path[0]; from fashion_infer.checkpoints import confined; confined._confine(1)\n{does}"
    monkeypatch.setattr(confined, "_CHILD", code)
    monkeypatch.setattr(confined, "_CPU_SECONDS", 1)
    monkeypatch.setattr(confined, "_SECONDS", 2.0 if "sleep" in does else 60.0)
    with pytest.raises(CheckpointError, match=words):
        confined.load(str(tmp_path / "a.h5"))


def test_the_confined_process_opens_one_file_and_writes_none(tmp_path):
    (tmp_path / "a").write_text("x")
    code = (
        "import sys; del sys.path[0]; from fashion_infer.checkpoints import confined; confined._rehearse()\n"
        "confined._confine(5); one = open(sys.argv[1])\n"
        "try: open(sys.argv[1])\n"
        "except OSError as error: print(error.errno)\n"
        "one.close()\n"
        "with open(sys.argv[1], 'w') as file: file.write('y')\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "a")], capture_output=True, text=True, cwd=ROOT,
                          env={**os.environ, "PYTHONPATH": str(ROOT)})  # fmt: skip
    assert done.stdout.split() == ["24"] and "File too large" in done.stderr, done.stderr


@pytest.mark.parametrize("limit", [1, 5000, 60_000])
def test_an_import_that_cannot_be_written(limit, tmp_path):
    """A file-size limit is what a full disk is: the write fails in its middle."""
    write_pair(tmp_path / "net", network())
    code = (
        f"import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))\n"
        "from fashion_infer.cli.main import main; main(sys.argv[1:])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "models", "import", str(tmp_path / "net"), "--to", str(tmp_path / "a.h5")],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=tmp_path,
    )  # fmt: skip
    whole = len(hdf5.image(network(), {}))
    if limit < whole:
        assert done.returncode == 3 and len(done.stderr.strip().splitlines()) == 1, done.stderr
        assert "cannot write" in done.stderr and "File too large" in done.stderr
        assert sorted(p.name for p in tmp_path.iterdir()) == ["net-0001.params", "net-symbol.json"]
    else:
        assert done.returncode == 0, done.stderr


# ---- .params ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content, words",
    [
        (struct.pack("<QQQIiiq", 0x112, 0, 1, 0xF993FAC9, 1, 1, 5), "sparse"),
        (struct.pack("<QQQIiiqqiii", 0x112, 0, 1, 0xF993FAC9, 0, 2, 2**31, 2**31, 1, 0, 0), "ends too early"),
        (struct.pack("<QQQ", 0x112, 0, 2**40), "arrays or names"),
        (struct.pack("<QQQQQ", 0x112, 0, 0, 1, 2**50), "ends too early"),
    ],
)
def test_what_a_params_file_claims_is_compared_with_its_size(content, words, tmp_path):
    path = tmp_path / "a.params"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=words):
        params_file.read(path)


@pytest.mark.parametrize("size, words", [(1 << 40, "does not begin"), (0, "ends too early")])
def test_a_file_of_holes_is_not_read_whole(size, words, tmp_path):
    path = tmp_path / "a.params"
    path.touch()
    os.truncate(path, size)
    with pytest.raises(CheckpointError, match=words):
        params_file.read(path)


def test_an_array_of_holes_is_bounded(tmp_path):
    """A whole file of 4 GB that takes no room on the disk: one weight, all zeros."""
    shape = (1 << 20, 1 << 10)
    head = struct.pack("<QQQIiiqqiii", 0x112, 0, 1, 0xF993FAC9, 0, 2, *shape, 1, 0, 0)
    names = struct.pack("<QQ", 1, 5) + b"arg:w"
    path = tmp_path / "a.params"
    with open(path, "wb") as file:
        file.write(head)
        file.seek(4 << 30, os.SEEK_CUR)
        file.write(names)
    with pytest.raises(CheckpointError, match="weights take 4096 MiB"):
        params_file.read(path)
    assert params_file.read(path, lambda name: False) == {}


@pytest.mark.parametrize("which", ["-symbol.json", "-0001.params"])
def test_fifos_do_not_hang(which, tmp_path):
    prefix = write_pair(tmp_path / "net", network())
    os.unlink(prefix + which)
    os.mkfifo(prefix + which)
    with pytest.raises(CheckpointError):
        load.load(prefix)
    with pytest.raises(CheckpointError, match="no checkpoint at"):
        load.load(prefix + which)


@pytest.mark.parametrize("path", ["x" * 300, "a/" * 3000, "a\0b", "/dev/zero", "loop"])
def test_paths_that_no_file_has(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.symlink("loop", "loop")
    with pytest.raises(CheckpointError) as error:
        load.load(path)
    assert "\n" not in str(error.value)


# ---- weights ---------------------------------------------------------------------------------


def test_weights_that_are_rounded_are_named(tmp_path, invoke):
    """float64 is narrowed with a line; what a float32 can hold is taken bit for bit without one."""
    found = network()
    exact = {name: array.astype(np.float64) for name, array in found.weights.items()}
    write_pair(tmp_path / "exact", found._replace(weights=exact))
    assert load.load(str(tmp_path / "exact")).notice is None
    finer = {**exact, "new0_weight": exact["new0_weight"] + 1e-12}
    write_pair(tmp_path / "finer", found._replace(weights=finer))
    loaded = load.load(str(tmp_path / "finer"))
    assert loaded.notice == "the network computes in float32: weight new0_weight was rounded to it"
    np.testing.assert_array_equal(loaded.weights["new0_weight"], finer["new0_weight"].astype(np.float32))
    code, _, err = invoke("models", "import", tmp_path / "finer", "--to", tmp_path / "a.h5")
    assert code == 0 and "new0_weight was rounded" in err
    for name, words in (("finer", "new0_weight was rounded"), ("exact", "")):
        options = ("--n", 10, "--data", "synthetic", "--backend", "cpu")
        code, _, err = invoke("run", "--checkpoint", tmp_path / name, *options)
        assert code == 0 and (words in err if words else not err)
    larger = {**exact, "new0_weight": exact["new0_weight"] * 1e300}
    write_pair(tmp_path / "larger", found._replace(weights=larger))
    with pytest.raises(CheckpointError, match="new0_weight holds NaN or infinite"):
        load.load(str(tmp_path / "larger"))


def test_scores_that_are_no_numbers_fail(tmp_path, invoke):
    """Finite weights whose products overflow: no correctness is printed of predictions that mean nothing."""
    found = network()
    large = {name: np.full_like(array, 3e38) for name, array in found.weights.items()}
    prefix = write_pair(tmp_path / "net", found._replace(weights=large))
    for mode in MODES:
        arguments = ("--checkpoint", prefix, "--n", 10, "--data", "synthetic", "--backend", "cpu", "--mode", mode)
        code, out, err = invoke("run", *arguments)
        assert code == 1 and "the scores of 10 of 10 images are not numbers" in err and "Correctness" not in out
        assert len(err.strip().splitlines()) == 1
    with pytest.raises(CheckFailed):
        pipeline.check_scores(np.array([[0.1, np.inf]]))


# ---- what MXNet says -------------------------------------------------------------------------


def test_mxnets_own_lines_stay_off_stderr(tmp_path, capfd, images):
    """Its message is in ours, without the place in its source."""
    odd = changed(network(), lambda g: node(g, "Pooling")["attrs"].update(kernel="(40, 40)"))
    for mode in MODES:
        with pytest.raises(CheckpointError) as error:
            Predictor(odd, SHAPE, mode=mode)
        text = str(error.value)
        assert text.startswith("the network does not fit the images: Error in operator 'pooling0': Check failed")
        assert "src/" not in text and ".cc" not in text and len(text) < 400
    assert capfd.readouterr().err == ""
