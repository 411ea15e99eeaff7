"""`run` and `predict` with --ray and --out: output, results and refusals."""

import importlib.util
import itertools
import json
from types import SimpleNamespace

import numpy as np
import pytest
import results

from fashion_infer import infer
from fashion_infer.checkpoints import hdf5
from fashion_infer.cli import scaling
from fashion_infer.data import dataset
from fashion_infer.errors import DataError
from fashion_infer.inference import model
from fashion_infer.present.render import progress
from fashion_infer.request import Request

RUN = ("run", "--data", "synthetic", "--backend", "cpu")


def only_progress(err):
    """Return whether stderr has only lines about progress, which appear on slow machines."""
    return all(line.startswith("images: ") for line in err.splitlines())


def test_run_into_a_folder_prints_what_run_prints(invoke, tmp_path):
    words = (*RUN, "--n", "300", "--out", tmp_path, "--block-size", "128")
    code, out, err = invoke(*words)
    one = infer(n=300, data="synthetic", backend="cpu")
    lines = out.splitlines()
    assert code == 0 and only_progress(err)
    assert lines[:2] == ["Loading model... done", "New Inference"]
    assert lines[2] == f"Correctness: {one.correctness} Model: ece408-high Data: synthetic"
    assert lines[-1] == f"300 images in {tmp_path}"
    assert np.array_equal(results.column(results.table(tmp_path), "class"), one.predictions)
    again = invoke(*words)[1].splitlines()
    assert again[:3] == lines[:3] and again[3] == f"300 images in {tmp_path}; 3 of its 3 files were already there"
    facts = json.loads(invoke(*words, "--json")[1])
    assert (facts["n"], facts["correctness"], facts["blocks_before"]) == (300, one.correctness, 3)


def test_more_images_than_the_set_has(invoke, tmp_path):
    code, out, _ = invoke(*RUN, "--n", "10500", "--model", "ece408-low", "--out", tmp_path)
    assert code == 0 and f"10,500 images in {tmp_path}" in out


def test_a_custom_dataset(invoke, images, tmp_path):
    for name, array in zip(("images", "labels"), images):
        np.save(tmp_path / f"{name}.npy", array)
    words = ("run", "--backend", "cpu", "--data", "own", "--data-dir", tmp_path)
    code, out, err = invoke(*words, "--out", tmp_path / "out")
    correctness = [line for line in out.splitlines() if line.startswith("Correctness")]
    assert code == 0 and only_progress(err) and correctness[0].endswith("Data: own")
    one = infer(data="own", data_dir=tmp_path, backend="cpu")
    assert correctness == [f"Correctness: {one.correctness} Model: ece408-high Data: own"]


def test_predict_takes_files_and_folders(invoke, images, one_process, tmp_path):
    (tmp_path / "in").mkdir()
    np.save(tmp_path / "in" / "a.npy", images[0])
    code, out, err = invoke("predict", tmp_path / "in", "--backend", "cpu", "--out", tmp_path / "out")
    assert code == 0 and only_progress(err) and out.splitlines()[-1] == f"700 images in {tmp_path / 'out'}"
    found = results.table(tmp_path / "out")
    assert np.array_equal(results.column(found, "class"), one_process.predictions)
    assert set(found["source"].to_pylist()) == {str(tmp_path / "in" / "a.npy")}


def test_normalised_pixels(invoke, tmp_path):
    """It is the shipped network for pixels divided by 255, with weights multiplied by 255."""
    shipped = model.load(Request("ece408-high")).checkpoint
    first = next(name for name in shipped.weights if shipped.weights[name].ndim == 4)
    weights = {**shipped.weights, first: shipped.weights[first] * np.float32(255)}
    hdf5.save(tmp_path / "own.h5", shipped._replace(weights=weights, attributes={"edition": "fa2017", "scale": 255.0}))
    words = (*RUN, "--n", "300", "--checkpoint", tmp_path / "own.h5")
    code, _, err = invoke(*words, "--out", tmp_path / "out", "--block-size", "128", "--scores")
    assert code == 0 and not err
    one = infer(n=300, data="synthetic", backend="cpu", checkpoint=str(tmp_path / "own.h5"))
    found = results.table(tmp_path / "out")
    assert np.array_equal(results.column(found, "class"), one.predictions)
    assert one.correctness > 0.8
    # With another normalisation it is another job, which needs another folder.
    assert invoke(*words, "--mean", "0.3", "--out", tmp_path / "out")[0] == DataError.exit_code
    assert invoke(*words, "--mean", "0.3", "--out", tmp_path / "other")[0] == 0
    other = infer(n=300, data="synthetic", backend="cpu", checkpoint=str(tmp_path / "own.h5"), mean=0.3)
    assert np.array_equal(results.column(results.table(tmp_path / "other"), "class"), other.predictions)
    np.save(tmp_path / "pixels.npy", dataset.load(300, source="synthetic").images)
    words = ("predict", tmp_path / "pixels.npy", "--backend", "cpu", "--checkpoint", tmp_path / "own.h5")
    assert invoke(*words, "--out", tmp_path / "predicted")[0] == 0
    assert np.array_equal(results.column(results.table(tmp_path / "predicted"), "class"), one.predictions)


@pytest.mark.parametrize("name", ["/dev/null", "no-such-filesystem://x", "\udcff"])
def test_impossible_folders(invoke, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    for words in ((*RUN, "--n", "9", "--out", name), ("predict", name, "--backend", "cpu", "--out", tmp_path / "out")):
        code, _, err = invoke(*words)
        assert code == 3 and err.count("\n") == 1, words


@pytest.mark.parametrize("there", ["", "a", "a/b"])
def test_a_failed_job_leaves_only_finished_blocks(invoke, images, tmp_path, there):
    """A failed job leaves the files of finished blocks and its description, or nothing if no block was finished."""
    (tmp_path / there).mkdir(exist_ok=True, parents=True)
    (tmp_path / "bad.png").write_text("no picture")
    np.save(tmp_path / "good.npy", images[0])
    before, out = sorted(tmp_path.rglob("*")), tmp_path / "a" / "b"
    words = (tmp_path / "bad.png", "--backend", "cpu", "--block-size", len(images[0]), "--out", out)
    for _ in range(2):
        code, _, err = invoke("predict", *words)
        assert code == 3 and "bad.png" in err and err.count("\n") == 1
        assert sorted(tmp_path.rglob("*")) == before
    for _ in range(2):
        code, _, err = invoke("predict", tmp_path / "good.npy", *words)
        assert code == 3 and "bad.png" in err and err.count("\n") == 1
        assert sorted(path.name for path in out.iterdir()) == ["_job.json", "part-000000000.parquet"]


def test_a_network_without_a_fused_form_is_refused(invoke, tmp_path, monkeypatch):
    from fashion_infer.inference import model as models

    load = models.load

    def changed(request):
        model = load(request)
        text = model.checkpoint.symbol.replace('"tanh"', '"softrelu"')
        assert text != model.checkpoint.symbol
        return model._replace(network=text)

    monkeypatch.setattr(models, "load", changed)
    code, _, err = invoke(*RUN, "--n", "10", "--out", tmp_path / "out")
    assert code == 2 and err.count("\n") == 1


@pytest.mark.parametrize("missing", [{"pyarrow"}, {"ray"}, {"pyarrow", "ray"}])
def test_without_the_packages_of_the_extra(invoke, tmp_path, monkeypatch, missing):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name in missing else find(name, *a))
    code, out, err = invoke(*RUN, "--ray", "auto", "--out", tmp_path / "out")
    assert code == 2 and not out and err.count("\n") == 1


@pytest.mark.parametrize("seconds, lines", [(0.01, []), (3, ["50 of 100", "100 of 100"])])
def test_progress_is_shown_after_two_seconds(capsys, monkeypatch, seconds, lines):
    clock = itertools.count(step=seconds)
    for module in (scaling, progress):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    with scaling.bar(100) as advance:
        advance(50, 1)
        advance(100, 1)
    out, err = capsys.readouterr()
    said = err.splitlines()
    assert not out and [wanted in line for wanted, line in zip(lines, said)] == [True] * len(lines) == [True] * len(
        said
    )
