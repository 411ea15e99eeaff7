"""The course's own weights: fetched from a server on this machine, verified by Git object ids, and run."""

import re
import shutil
import subprocess

import numpy as np
import pytest
from test_download import Server

from fashion_infer.checkpoints import minidnn, mxnet_pair, originals, zoo
from fashion_infer.data import retrieve
from fashion_infer.errors import CheckpointError, DataError, UsageError
from fashion_infer.graph import symbol


def test_ids_equal_gits(tmp_path):
    if not shutil.which("git"):
        pytest.skip("needs git")
    for content in (b"", b"weights", bytes(range(256)) * 999):
        path = tmp_path / "file"
        path.write_bytes(content)
        git = subprocess.run(["git", "hash-object", str(path)], capture_output=True, text=True, check=True)
        assert retrieve.git_blob(path) == git.stdout.strip()


@pytest.fixture
def served(bare, monkeypatch, tmp_path):
    """A function that selects a server's behaviour. The server offers a .params file of ece408-low as the original."""
    mxnet_pair.save(str(tmp_path / "low"), zoo.get("ece408-low").load())
    path = tmp_path / "low-0001.params"
    original = originals.ORIGINALS["ece408-low"]._replace(blob=retrieve.git_blob(path))
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
def test_originals_are_fetched_and_run(served, behaviour, invoke):
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


@pytest.mark.parametrize(
    "name, layers", [("sp2018-baseline", "convolution"), ("fa2019-ece408", "new"), ("sp2019-ece408", "new")]
)
def test_other_editions(name, layers, bare, monkeypatch, tmp_path, invoke):
    """Files in the course's form (epoch 2) of other editions are run, and give the shipped weights' correctness."""
    mxnet_pair.save(str(tmp_path / name), zoo.get(name).load(), epoch=2)
    file = tmp_path / f"{name}-0002.params"
    original = originals.ORIGINALS[name]
    assert original.file.endswith("-0002.params")
    monkeypatch.setitem(originals.ORIGINALS, name, original._replace(blob=retrieve.git_blob(file)))
    originals.path(name).parent.mkdir(parents=True)
    shutil.copy(str(file), str(originals.path(name)))
    loaded = originals.load(name)
    nodes = [node["name"] for node in symbol.parse(loaded.symbol, "it")["nodes"] if node["op"] != "null"]
    first, second = f"{layers}0", f"{layers}1"
    rest = ["flatten0", "fullyconnected0", "activation1", "fullyconnected1", "softmax"]
    assert nodes == [first, "activation0", "pooling0", second, *rest]
    edition, short = zoo.get(name).edition, zoo.get(name).short_name
    run = ("run", "--model", short, "--edition", edition, "--n", "20", "--data", "synthetic", "--backend", "cpu")
    original, shipped = invoke(*run, "--weights", "original"), invoke(*run)
    assert original[0] == shipped[0] == 0 and original[1].count("Op Time") == (2 if layers == "new" else 0)
    summary = [re.search("^(Correctness|EvalMetric): .*$", out, re.M).group() for _, out, _ in (original, shipped)]
    assert summary[0] == summary[1]


def test_models_without_an_original():
    """Only fa2018's models have no original, because their weights are not public."""
    assert originals.ORIGINALS.keys() < zoo.MODELS.keys()
    without = [name for name in zoo.MODELS if name not in originals.ORIGINALS]
    assert without == ["fa2018-ece408", "fa2018-baseline"] and not originals.is_here("fa2018-ece408")


@pytest.fixture
def by_hand(bare, monkeypatch):
    """The path for fa2020's original file, and a content that is accepted as the original."""
    path = originals.path("fa2020")
    path.parent.mkdir(parents=True)
    content = minidnn.save(path, zoo.get("fa2020").load()).read_bytes()
    original = originals.ORIGINALS["fa2020"]
    monkeypatch.setitem(originals.ORIGINALS, "fa2020", original._replace(blob=retrieve.git_blob(path)))
    path.unlink()
    return path, content


def test_an_original_that_users_copy_themselves(by_hand, invoke):
    path, content = by_hand
    fetch = ("models", "fetch", "fa2020", "--original")
    code, _, err = invoke(*fetch)
    assert code == 3 and err.count("\n") == 1 and "Project/" in err and f"copy it to {path}" in err
    path.write_bytes(content[:-1])
    code, _, err = invoke(*fetch)
    assert code == 3 and "is not the course's file: its Git blob id is" in err and path.is_file()
    with pytest.raises(CheckpointError):
        originals.load("fa2020")
    path.write_bytes(content)
    code, out, _ = invoke(*fetch)
    assert code == 0 and out.strip() == str(path)
    run = ("run", "--model", "fa2020", "--n", "20", "--data", "synthetic", "--backend", "cpu", "--mode", "operator")
    found, shipped = (invoke(*run, "--weights", weights) for weights in ("original", "shipped"))
    assert found[0] == shipped[0] == 0
    summary = [re.search("^Correctness: .*$", out, re.M).group() for _, out, _ in (found, shipped)]
    assert summary[0] == summary[1]


def test_recorded_ids():
    assert originals.ORIGINALS["fa2020"].blob == "5905e91e444cea2a07a5a1de05fd92e0bf53c8dd"
    assert originals.ORIGINALS["sp2018-ece408"][:2] == ("2018sp", "ece408-0002.params")
    assert len({original.blob for original in originals.ORIGINALS.values()}) == len(originals.ORIGINALS)


@pytest.mark.parametrize(
    "behaviour, words",
    [
        ("missing", "HTTP 404"),
        ("corrupt", "the download is damaged"),
        ("truncated", "connection broke|damaged"),
        ("stalled", "timed out"),
    ],
)
def test_failed_downloads(served, behaviour, words, monkeypatch):
    monkeypatch.setattr(retrieve, "TIMEOUT", (1, 0.5))
    served(behaviour)
    with pytest.raises(DataError, match=f"could not download ece408-low-0001.params.*({words}).*copy the file to"):
        originals.fetch("ece408-low")
    assert not originals.path("ece408-low").parent.exists()


def test_a_damaged_copy(served):
    served("good")
    path = originals.fetch("ece408-low")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CheckpointError):
        originals.load("ece408-low")
    originals.fetch("ece408-low")
    originals.load("ece408-low")


def test_no_such_original(invoke):
    with pytest.raises(UsageError):
        originals.path("other")
    assert "did you mean" in invoke("models", "fetch", "ece408", "--original")[2]
    assert "sp2018-baseline are already installed" in invoke("models", "fetch", "baseline", "--edition", "sp2018")[2]
    code, _, err = invoke("models", "fetch", "baseline")
    assert code == 2 and "--original" in err
