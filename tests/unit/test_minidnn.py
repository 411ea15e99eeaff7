"""weights-86.bin, mini-dnn's file of weights: layout, reading, writing and refusals."""

import random
import struct

import mutate
import numpy as np
import pytest
from test_checkpoint import refused, same_bits

from fashion_infer.checkpoints import checkpoint, editions, hdf5, load, minidnn, zoo
from fashion_infer.errors import CheckpointError
from fashion_infer.graph import symbol

SIZE = 180788
SHAPES = {
    "new0_weight": (4, 1, 7, 7),
    "new1_weight": (16, 4, 7, 7),
    "fullyconnected0_weight": (32, 1296),
    "fullyconnected0_bias": (32,),
    "fullyconnected1_weight": (10, 32),
    "fullyconnected1_bias": (10,),
}
IGNORED = {"new0_weight": 4, "new1_weight": 16}  # number of biases after a convolution's weights; they are ignored


@pytest.fixture(scope="module")
def weights():
    rng = np.random.default_rng(0)
    return {name: (rng.standard_normal(shape) / 8).astype(np.float32) for name, shape in SHAPES.items()}


@pytest.fixture(scope="module")
def original(weights):
    edition = editions.get("fa2020")
    return checkpoint.Checkpoint(symbol.build(edition.layers, edition.shape), weights, {})


def written(weights, biases=0.0):
    """Return the file's bytes, made without `minidnn`. `biases` is the value of the convolutions' biases."""
    layers = [
        ["new0_weight"], [], [], ["new1_weight"], [], [],
        ["fullyconnected0_weight", "fullyconnected0_bias"], [], ["fullyconnected1_weight", "fullyconnected1_bias"], [],
    ]  # fmt: skip
    content = struct.pack("<i", len(layers))
    for names in layers:
        numbers = [float(number) for name in names for number in weights[name].reshape(-1)]
        numbers += [biases] * sum(IGNORED.get(name, 0) for name in names)
        content += struct.pack(f"<i{len(numbers)}f", len(numbers), *numbers)
    return content


@pytest.fixture
def file(weights, tmp_path):
    path = tmp_path / "weights-86.bin"
    path.write_bytes(written(weights))
    return path


def test_read(file, weights):
    found = load.load(str(file))
    assert same_bits(found.weights, weights) and found.attributes["edition"] == "fa2020"


def test_biases_of_convolutions_are_ignored(file, weights):
    file.write_bytes(written(weights, biases=7.0))
    assert same_bits(load.load(str(file)).weights, weights)


@pytest.mark.parametrize("operator", ["custom", "builtin"])
def test_written(original, operator, tmp_path, weights):
    edition = editions.get("fa2020")
    named = {name.replace("new", "convolution") if operator == "builtin" else name: w for name, w in weights.items()}
    text = symbol.build(edition.layers, edition.shape, operator)
    path = minidnn.save(tmp_path / "a.bin", checkpoint.Checkpoint(text, named, {}))
    assert path.read_bytes() == written(weights)
    assert [p.name for p in tmp_path.iterdir()] == ["a.bin"]
    assert same_bits(load.load(str(path)).weights, weights)


def test_the_format_is_recognised_by_content(original, file, tmp_path):
    renamed = tmp_path / "model"
    file.rename(renamed)
    assert load.load(str(renamed)).attributes["edition"] == "fa2020"
    hdf5.save(tmp_path / "a.bin", original)
    assert same_bits(load.load(str(tmp_path / "a.bin")).weights, original.weights)


def test_truncated(file):
    content = file.read_bytes()
    for end in [*range(0, 48), *range(48, SIZE, 9973), SIZE - 4, SIZE - 1]:
        file.write_bytes(content[:end])
        refused(file)
    file.write_bytes(content + b"x")
    refused(file)
    file.unlink()
    refused(file)


# The number of layers, and the counts of layers 1, 2 and 4.
@pytest.mark.parametrize("at, value", [(0, 9), (0, 1 << 30), (0, -1), (4, 196), (808, 1), (816, -3152)])
def test_other_counts(file, at, value):
    content = bytearray(file.read_bytes())
    struct.pack_into("<i", content, at, value)
    file.write_bytes(content)
    refused(file)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nan_and_infinity_are_refused(file, weights, value):
    content = bytearray(file.read_bytes())
    struct.pack_into("<f", content, 8, value)
    file.write_bytes(content)
    refused(file)
    file.write_bytes(written(weights, biases=value))  # although these values are ignored
    refused(file)


def test_randomly_damaged_files(file):
    """A randomly damaged file is read, or refused with an error of one line. The counts are in the first bytes."""
    content, chance, outcomes = file.read_bytes(), random.Random(), {"read": 0, "refused": 0}
    for _ in range(300):
        file.write_bytes(mutate.damaged(chance, content, first=chance.choice([8, None])))
        try:
            found = load.load(str(file)).weights
            assert {name: array.shape for name, array in found.items()} == SHAPES
            outcomes["read"] += 1
        except CheckpointError as error:
            assert "\n" not in str(error)
            outcomes["refused"] += 1
    assert min(outcomes.values()) > 20


def test_exported_and_run(invoke, tmp_path):
    path = tmp_path / "weights-86.bin"
    code, out, _ = invoke("models", "export", "fa2020", "--to", path)
    assert code == 0 and out.strip() == str(path) and path.stat().st_size == SIZE
    assert same_bits(load.load(str(path)).weights, zoo.get("fa2020").load().weights)
    run = ("run", "--n", "40", "--data", "synthetic", "--backend", "cpu", "--mode", "operator", "--json")
    figures = []
    for chosen in (("--checkpoint", path), ("--model", "fa2020"), ("--checkpoint", path, "--op", "builtin")):
        code, out, err = invoke(*run, *chosen)
        assert code == 0, err
        figures.append(out[out.index('"predictions_sha256"') :].split('"')[3])
    assert len(set(figures)) == 1
    code, out, _ = invoke("models", "import", path, "--to", tmp_path / "a.h5")
    assert code == 0 and same_bits(hdf5.load(tmp_path / "a.h5").weights, load.load(str(path)).weights)


def test_other_networks_are_not_written(invoke, tmp_path):
    code, _, err = invoke("models", "export", "sp2018-baseline", "--to", tmp_path / "a.bin")
    assert code == 3 and "fa2020" in err and list(tmp_path.iterdir()) == []
    code, _, err = invoke("models", "export", "fa2020", "--to", tmp_path / "no" / "a.bin")
    assert code == 3 and err.count("\n") == 1
