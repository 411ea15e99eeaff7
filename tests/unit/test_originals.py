"""The course's own weights: fetched from a server on this machine, verified by Git's ids, and run."""

import shutil
import subprocess

import numpy as np
import pytest
from test_download import Server

from fashion_infer import checkpoint, download, originals, zoo
from fashion_infer.errors import CheckpointError, DataError, UsageError


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
    code, _, err = invoke("models", "fetch", "baseline")
    assert code == 2 and "--original" in err
