"""Custom datasets as IDX files and NumPy arrays: valid ones run, invalid ones give an error of one line."""

import gzip
import io
import json
import random
import re
import struct

import image_files
import mutate
import numpy as np
import profiles
import pytest

from fashion_infer import infer
from fashion_infer.checkpoints import hdf5
from fashion_infer.checkpoints.checkpoint import Checkpoint
from fashion_infer.data import dataset, idx, own, synthetic
from fashion_infer.errors import DataError
from fashion_infer.graph import layers as kinds
from fashion_infer.graph import symbol

CPU = ("--backend", "cpu")


@pytest.fixture
def made():
    """300 images of the built-in set (300, 28, 28) and their labels."""
    images, labels = synthetic.load()
    return images[:300, 0], labels[:300]


def put(folder, form, images, labels):
    """Write a dataset into a folder in one of the forms FORMS; return the paths of images and labels."""
    names = dict(zip(("idx", "npy"), (own.PAIRS[0], own.PAIRS[2]))).get(form.partition(".")[0])
    if form.startswith("npz"):
        keys = own.KEYS[0] if form == "npz" else own.KEYS[1]
        np.savez_compressed(folder / "set.npz", **dict(zip(keys, (images, labels))), other=np.zeros(3))
        return (folder / "set.npz",) * 2
    paths = [folder / (name + (".gz" if form == "idx.gz" else "")) for name in names]
    for path, array in zip(paths, (images, labels)):
        content = image_files.idx(array) if form.startswith("idx") else image_files.npy(array)
        path.write_bytes(gzip.compress(content) if form == "idx.gz" else content)
    return tuple(paths)


FORMS = ("idx", "idx.gz", "npy", "npz", "npz of Keras")


@pytest.mark.parametrize("form", FORMS)
def test_all_forms_are_read(form, tmp_path, made):
    files = put(tmp_path, form, *made)
    for found in (own.load(str(tmp_path)), own.load(None, *map(str, files))):
        assert np.array_equal(found.images[:, 0], made[0]) and np.array_equal(found.labels, made[1])
        assert found.images.shape == (300, 1, 28, 28) and found.images.dtype == np.uint8
        assert found.location == str(files[0]) and found.classes == int(made[1].max()) + 1


def test_arrays_of_other_layouts(tmp_path):
    rng = np.random.default_rng()
    for _ in range(profiles.examples(20)):
        count, side, classes = (int(value) for value in rng.integers([1, 2, 1], [30, 40, 50]))
        pixels = rng.integers(0, 256, (count, side, side)).astype(np.uint8)
        labels = rng.integers(0, classes, count)
        shaped = [pixels, pixels[:, None], pixels[..., None]][rng.integers(0, 3)]
        shaped = np.asarray(shaped, rng.choice(["u1", "<i2", ">i4", "<i8", "<u8"]), order=str(rng.choice(["C", "F"])))
        columns = labels.astype(rng.choice(["u1", ">i2", "<i8"])).reshape([(count,), (count, 1)][rng.integers(0, 2)])
        np.save(tmp_path / "images.npy", shaped)
        np.save(tmp_path / "labels.npy", columns)
        found = own.load(str(tmp_path))
        assert np.array_equal(found.images[:, 0], pixels) and np.array_equal(found.labels, labels)


def test_results_equal_those_of_the_built_in_set(tmp_path, made, invoke):
    put(tmp_path, "idx", *made)
    expected = infer(n=300, data="synthetic", backend="cpu")
    code, out, _ = invoke("run", "--data", "own", "--data-dir", tmp_path, *CPU, "--json")
    found = json.loads(out)
    assert code == 0 and found["n"] == 300 and found["data_source"] == "own"
    assert found["correctness"] == expected.correctness
    files = own.PAIRS[0]
    code, out, _ = invoke("run", "--images", tmp_path / files[0], "--labels", tmp_path / files[1], *CPU, "--n", "100")
    hits = int((expected.predictions[:100] == made[1][:100]).sum())
    assert code == 0 and f"Correctness: {hits / 100} Model: ece408-high Data: own" in out.splitlines()
    result = infer(data="own", data_dir=str(tmp_path), backend="cpu")
    assert np.array_equal(result.predictions, expected.predictions)
    assert result.class_names == tuple("0123456789") and result.data_location == str(tmp_path / files[0])


@pytest.mark.parametrize("side", [14, 32, 86])
def test_images_of_other_sizes_are_resized(tmp_path, side):
    pixels = np.random.default_rng().integers(0, 256, (20, side, side)).astype(np.uint8)
    np.savez(tmp_path / "a.npz", images=pixels, labels=np.arange(20) % 10)
    given = dataset.Images(pixels[:, None], np.arange(20) % 10, "own", "")
    result = infer(data="own", data_dir=str(tmp_path), backend="cpu", edition="sp2018")
    assert dataset.resized(given, 64).shape == (20, 1, 64, 64) and result.images.shape == (20, 1, side, side)
    assert result.n == 20


def test_data_info_shows_a_custom_dataset(tmp_path, made, invoke):
    files = put(tmp_path, "npy", *made)
    code, out, _ = invoke("data", "info", "--data", "own", "--data-dir", tmp_path)
    assert code == 0 and re.search(r"\b300\b.*\b28 x 28\b.*\b10\b", " ".join(out.split()))
    code, again, _ = invoke("data", "info", "--images", files[0], "--labels", files[1])
    assert (code, again) == (0, out)


def test_a_wrong_md5_suggests_data_own(tmp_path, made, invoke):
    put(tmp_path, "idx.gz", *made)
    code, _, err = invoke("run", "--data-dir", tmp_path, *CPU)
    assert code == 3 and "--data own" in err and err.count("\n") == 1


def header(shape, descr="|u1"):
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": descr, "fortran_order": False, "shape": shape})
    return stream.getvalue()


IMAGES = image_files.idx(np.zeros((4, 28, 28)))
LABELS = image_files.idx(np.zeros(4))
WRONG = {
    "empty": (b"", LABELS),
    "text": (b"images", LABELS),
    "images for labels": (IMAGES, IMAGES),
    "floats in IDX": (b"\0\0\x0d\x03" + IMAGES[4:], LABELS),
    "a header of terabytes": (struct.pack(">IIII", 2051, 2**31, 2**10, 2**10), LABELS),
    "counts differ": (IMAGES, image_files.idx(np.zeros(5))),
    "none": (image_files.idx(np.zeros((0, 28, 28))), image_files.idx(np.zeros(0))),
    "not square": (image_files.idx(np.zeros((4, 28, 20))), LABELS),
    "a pixel": (image_files.idx(np.zeros((4, 1, 1))), LABELS),
    "colours": (image_files.npy(np.zeros((4, 28, 28, 3), np.uint8)), LABELS),
    "floats": (image_files.npy(np.zeros((4, 28, 28))), LABELS),
    "objects": (image_files.npy(np.array([{}])), LABELS),
    "out of range": (image_files.npy(np.full((4, 28, 28), 256)), LABELS),
    "negative": (image_files.npy(np.full((4, 28, 28), -1)), LABELS),
    "an array that is cut off": (image_files.npy(np.zeros((4, 28, 28), np.uint8))[:-1], LABELS),
    "an array of terabytes": (header((2**20, 2**10, 2**10)), LABELS),
    "a header that is cut off": (header((4, 28, 28))[:40], LABELS),
    "a header that is a program": (b"\x93NUMPY\x01\0\x20\0__import__('os').abort()       \n", LABELS),
    "an archive that is none": (b"PK\x03\x04" + bytes(50), LABELS),
    "labels in two columns": (IMAGES, image_files.npy(np.zeros((4, 10), int))),
    "negative labels": (IMAGES, image_files.npy(np.array([0, 1, -1, 2]))),
    "labels of 2**40": (IMAGES, image_files.npy(np.array([0, 1, 2**40, 2]))),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_with_it_is_one_line(name, tmp_path):
    images, labels = WRONG[name]
    paths = [tmp_path / "i", tmp_path / "l"]
    for path, content in zip(paths, (images, labels)):
        path.write_bytes(content)
    with pytest.raises(DataError) as error:
        own.load(None, *map(str, paths))
    assert "\n" not in str(error.value) and str(tmp_path) in str(error.value)


def test_a_bomb_is_left_at_the_bound(tmp_path, monkeypatch):
    monkeypatch.setattr(idx, "MOST", 1 << 20)
    (tmp_path / "b.npz").write_bytes(bomb())
    (tmp_path / "l").write_bytes(LABELS)
    with pytest.raises(DataError):
        own.load(None, str(tmp_path / "b.npz"), str(tmp_path / "l"))
    (tmp_path / "i.gz").write_bytes(gzip.compress(struct.pack(">IIII", 2051, 4, 28, 28) + bytes(64 << 20)))
    with pytest.raises(DataError):
        own.load(None, str(tmp_path / "i.gz"), str(tmp_path / "l"))


def bomb():
    """Return a compressed file of 64 kB that unpacks to 64 MB of zeros."""
    stream = io.BytesIO()
    np.savez_compressed(stream, images=np.zeros((64, 1024, 1024), np.uint8))
    return stream.getvalue()


def test_damaged_files_are_one_line(tmp_path, made):
    chance = random.Random()
    for form in FORMS:
        files = put(tmp_path, form, *(part[:20] for part in made))
        for path in set(files):
            whole = path.read_bytes()
            for _ in range(profiles.examples(15)):
                path.write_bytes(mutate.damaged(chance, whole, first=200))
                try:
                    own.load(None, *map(str, files))
                except DataError as error:
                    assert "\n" not in str(error)
            path.write_bytes(whole)


def test_labels_beyond_the_models_classes_are_refused_before_anything_runs(tmp_path, made, invoke):
    put(tmp_path, "npz", made[0], made[1].astype(int) + 1)
    code, out, err = invoke("run", "--data", "own", "--data-dir", tmp_path, *CPU)
    assert code == 3 and "New Inference" not in out and err.count("\n") == 1


def test_a_network_with_26_classes(tmp_path, invoke):
    """Scores equal NumPy's in float64, and classes are shown as numbers."""
    rng = np.random.default_rng()
    layers = (kinds.Flatten(), kinds.Dense(26), kinds.Softmax())
    weights = {"fullyconnected0_weight": rng.normal(0, 2e-4, (26, 784)), "fullyconnected0_bias": rng.normal(0, 1, 26)}
    weights = {name: array.astype(np.float32) for name, array in weights.items()}
    hdf5.save(tmp_path / "letters.h5", Checkpoint(symbol.build(layers, (1, 28, 28)), weights, {}))
    pixels, labels = rng.integers(0, 256, (60, 28, 28)).astype(np.uint8), rng.permutation(60) % 26
    np.savez(tmp_path / "a.npz", images=pixels, labels=labels)
    asked = {"data": "own", "data_dir": str(tmp_path), "checkpoint": str(tmp_path / "letters.h5"), "input_size": 28}
    result = infer(**asked, backend="cpu")
    logits = pixels.reshape(60, 784) @ weights["fullyconnected0_weight"].astype(float).T
    exact = np.exp(logits + weights["fullyconnected0_bias"])
    exact /= exact.sum(axis=1, keepdims=True)
    assert np.allclose(result.scores, exact, atol=1e-4)
    assert result.class_names == tuple(str(number) for number in range(26))
    assert result.correctness == (exact.argmax(axis=1) == labels).mean()
    options = [f"--{name.replace('_', '-')}={value}" for name, value in asked.items()]
    code, _, err = invoke("run", *options, *CPU, "--confusion", tmp_path / "c.png", "--mistakes", tmp_path / "m.png")
    assert code == 0 and (tmp_path / "c.png").exists(), err
