"""The course's own weights: fetched from a server on this machine, verified by Git's ids, and run."""

import re
import shutil
import subprocess

import numpy as np
import pytest
from test_download import Server

from fashion_infer.checkpoints import checkpoint, originals, zoo
from fashion_infer.data import download
from fashion_infer.errors import CheckpointError, DataError, UsageError
from fashion_infer.graph import network


def test_ids_are_gits_own(tmp_path):
    if not shutil.which("git"):
        pytest.skip("needs git")
    for content in (b"", b"weights", bytes(range(256)) * 999):
        path = tmp_path / "file"
        path.write_bytes(content)
        git = subprocess.run(["git", "hash-object", str(path)], capture_output=True, text=True, check=True)
        assert download.git_blob(path) == git.stdout.strip()


@pytest.fixture
def served(bare, monkeypatch, tmp_path):
    """A server whose file is a real .params of ece408-low, under the id that it then has."""
    checkpoint.save_mxnet(str(tmp_path / "low"), zoo.get("ece408-low").load())
    path = tmp_path / "low-0001.params"
    original = originals.ORIGINALS["ece408-low"]._replace(blob=download.git_blob(path))
    monkeypatch.setitem(originals.ORIGINALS, "ece408-low", original)
    server = Server()
    server.content = {original.file: path.read_bytes()}

    def behave(name):
        monkeypatch.setenv("FASHION_INFER_ORIGINALS", server.url(name))

    yield behave
    server.release.set()
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("behaviour", ["good", "moved"])
def test_fetched_and_run(served, behaviour, invoke):
    served(behaviour)
    with pytest.raises(CheckpointError, match="models fetch ece408-low --original"):
        originals.load("ece408-low")
    code, out, _ = invoke("models", "fetch", "ece408-low", "--original")
    assert code == 0 and out.strip() == str(originals.path("ece408-low"))
    loaded, shipped = originals.load("ece408-low"), zoo.get("ece408-low").load()
    assert all(np.array_equal(loaded.weights[k], shipped.weights[k]) for k in shipped.weights)
    run = ("run", "--data", "synthetic", "--n", "50", "--backend", "cpu", "--model", "ece408-low")
    code, out, _ = invoke(*run, "--weights", "original")
    assert code == 0 and "Model: ece408-low" in out
    assert " fetched" in invoke("models", "list")[1]


@pytest.mark.parametrize("name, layers", [("sp2018-baseline", "convolution"), ("fa2019-ece408", "new")])
def test_other_editions(name, layers, bare, monkeypatch, tmp_path, invoke):
    """The course's files of these editions are those of epoch 2; weights named as then fit the network built here."""
    checkpoint.save_mxnet(str(tmp_path / name), zoo.get(name).load(), epoch=2)
    file = tmp_path / f"{name}-0002.params"
    original = originals.ORIGINALS[name]
    assert original.file.endswith("-0002.params")
    monkeypatch.setitem(originals.ORIGINALS, name, original._replace(blob=download.git_blob(file)))
    originals.path(name).parent.mkdir(parents=True)
    shutil.copy(str(file), str(originals.path(name)))
    loaded = originals.load(name)
    nodes = [node["name"] for node in network.parse(loaded.symbol, "it")["nodes"] if node["op"] != "null"]
    first, second = f"{layers}0", f"{layers}1"
    rest = ["flatten0", "fullyconnected0", "activation1", "fullyconnected1", "softmax"]
    assert nodes == [first, "activation0", "pooling0", second, *rest]
    edition, short = zoo.get(name).edition, zoo.get(name).short_name
    run = ("run", "--model", short, "--edition", edition, "--n", "20", "--data", "synthetic", "--backend", "cpu")
    original, shipped = invoke(*run, "--weights", "original"), invoke(*run)
    assert original[0] == shipped[0] == 0 and original[1].count("Op Time") == (2 if layers == "new" else 0)
    summary = [re.search("^(Correctness|EvalMetric): .*$", out, re.M).group() for _, out, _ in (original, shipped)]
    assert summary[0] == summary[1]


def test_every_model_has_an_original():
    assert list(originals.ORIGINALS.keys() ^ zoo.MODELS.keys()) == []


@pytest.mark.parametrize(
    "behaviour, words",
    [
        ("missing", "HTTP 404"),
        ("corrupt", "what came is damaged"),
        ("truncated", "connection broke|damaged"),
        ("stalled", "timed out"),
    ],
)
def test_trouble(served, behaviour, words, monkeypatch):
    monkeypatch.setattr(download, "TIMEOUT", (1, 0.5))
    served(behaviour)
    with pytest.raises(DataError, match=f"could not download ece408-low-0001.params.*({words}).*put the file there"):
        originals.fetch("ece408-low")
    assert list(originals.path("ece408-low").parent.iterdir()) == []


def test_a_damaged_copy(served):
    served("good")
    path = originals.fetch("ece408-low")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match="is damaged"):
        originals.load("ece408-low")
    originals.fetch("ece408-low")
    originals.load("ece408-low")


def test_no_such_original(invoke):
    with pytest.raises(UsageError, match="no original weights of 'other'"):
        originals.path("other")
    assert "did you mean" in invoke("models", "fetch", "ece408", "--original")[2]
    assert "sp2018-baseline are here" in invoke("models", "fetch", "baseline", "--edition", "sp2018")[2]
    code, _, err = invoke("models", "fetch", "baseline")
    assert code == 2 and "--original" in err
