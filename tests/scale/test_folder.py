"""The folder of results: one file per block, in order and complete, for one job that can be resumed."""

import os

import numpy as np
import pytest
import results

from fashion_infer.errors import CheckFailed, DataError
from fashion_infer.inference import model as models
from fashion_infer.scale import job, sources, worker
from fashion_infer.scale.classify import classify
from fashion_infer.scale.folder import name_of


def test_one_file_per_block_with_the_results_of_one_process(images, one_process, tmp_path):
    outcome = classify(results.drawn(700, tmp_path, block_size=150, scores=True))
    assert sorted(os.listdir(tmp_path)) == ["_job.json", *map(name_of, range(5))]
    found = results.table(tmp_path)
    assert [str(field.type) for field in found.schema][:2] == ["int64", "uint8"]
    assert str(found.schema.field("scores").type) == "fixed_size_list<element: float>[10]"
    assert np.array_equal(results.column(found, "index"), np.arange(700))
    assert np.array_equal(results.column(found, "class"), one_process.predictions)
    assert np.array_equal(results.column(found, "scores"), one_process.scores)
    assert outcome.correctness == one_process.correctness and outcome.images == 700 and outcome.blocks == 5


def test_a_second_run_computes_missing_blocks(one_process, tmp_path):
    planned = results.drawn(700, tmp_path, block_size=100)
    first = classify(planned)
    want = results.table(tmp_path)
    (tmp_path / name_of(2)).unlink()
    (tmp_path / name_of(4)).write_bytes((tmp_path / name_of(4)).read_bytes()[:-9])  # truncated, as on a full disk
    (tmp_path / name_of(5)).write_bytes((tmp_path / name_of(1)).read_bytes())  # the contents of another block
    kept = {name: os.stat(tmp_path / name).st_mtime_ns for name in (name_of(0), name_of(6))}
    steps = []
    second = classify(planned, progress=lambda images, nodes: steps.append(images))
    assert second.before == 4 and steps == [400, 500, 600, 700] and results.table(tmp_path).equals(want)
    assert second.correct == first.correct == round(one_process.correctness * 700)
    assert {name: os.stat(tmp_path / name).st_mtime_ns for name in kept} == kept
    assert classify(planned).nodes == []


def test_another_job_is_refused(tmp_path, images):
    out = tmp_path / "out"
    classify(results.drawn(50, out, block_size=50))
    for other in (
        results.drawn(51, out, block_size=50),
        results.drawn(50, out, block_size=20),
        results.drawn(50, out, block_size=50, scores=True),
        results.drawn(50, out, block_size=50, model="ece408-low"),
        results.planned([sources.held(images[0][:50])], out, block_size=50, held=images),
    ):
        with pytest.raises(DataError):
            classify(other)
    (out / "_job.json").write_text("{")
    with pytest.raises(DataError):
        classify(results.drawn(50, out, block_size=50))


def test_other_weights_under_the_same_name_are_another_job(tmp_path):
    model = models.load(results.CPU)
    weights = dict(model.checkpoint.weights)
    name = sorted(weights)[0]
    weights[name] = np.nextafter(weights[name], np.float32(9))
    other = model._replace(checkpoint=model.checkpoint._replace(weights=weights))
    classify(results.drawn(50, tmp_path))
    with pytest.raises(DataError):
        classify(job.plan(results.CPU.but(out=str(tmp_path)), other, [sources.drawn(50)]))


def test_a_folder_with_other_files_is_not_changed(tmp_path):
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(DataError):
        classify(results.drawn(50, tmp_path))
    assert os.listdir(tmp_path) == ["thesis.tex"]
    with pytest.raises(DataError):
        classify(results.drawn(50, tmp_path / "thesis.tex" / "below"))


def test_a_worker_that_cannot_see_the_folder(tmp_path):
    planned = results.drawn(50, tmp_path / "not-there")
    with pytest.raises(DataError):
        worker.BlockWorker(planned.spec, "here")


def test_scores_that_are_not_finite_end_the_job(tmp_path):
    model = models.load(results.CPU)
    weights = {name: array * np.float32(1e38) for name, array in model.checkpoint.weights.items()}
    broken = model._replace(checkpoint=model.checkpoint._replace(weights=weights))
    with pytest.raises(CheckFailed):
        classify(job.plan(results.CPU.but(out=str(tmp_path)), broken, [sources.drawn(50)]))
    assert os.listdir(tmp_path) == []


def test_results_name_their_sources(images, tmp_path):
    for name, some in (("a.npy", images[0][:30]), ("b.npy", images[0][30:50])):
        np.save(tmp_path / name, some)
    classify(results.planned(sources.of([str(tmp_path)]), tmp_path / "out", block_size=20))
    names = results.table(tmp_path / "out")["source"].to_pylist()
    assert names == [str(tmp_path / "a.npy")] * 30 + [str(tmp_path / "b.npy")] * 20
