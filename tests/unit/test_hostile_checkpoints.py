"""Malicious checkpoints cannot crash the program or run code in it."""

import os
import resource
import struct
import subprocess
import sys
from pathlib import Path

import hostile_hdf5
import numpy as np
import pytest
from hostile_checkpoints import PARAMS, network, write_pair

from fashion_infer import pipeline
from fashion_infer.checkpoints import confined, hdf5, load, params_file
from fashion_infer.errors import CheckFailed, CheckpointError

ROOT = Path(__file__).resolve().parents[2]
MODES = ("operator", "fused")


# ---- HDF5.


@pytest.mark.parametrize("what", hostile_hdf5.WEIGHTS)
def test_malicious_weights_are_refused_before_they_are_read(what, tmp_path):
    make, words = hostile_hdf5.WEIGHTS[what]
    path = hostile_hdf5.small(tmp_path / "a.h5", make)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(CheckpointError) as error:
        hdf5.load(path)
    assert words in str(error.value) and "\n" not in str(error.value)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kB


def test_unused_weights_are_not_read(tmp_path):
    def more(weights):
        weights[hostile_hdf5.WEIGHT] = np.ones((10, 784), np.float32)
        weights.create_dataset("more", (400_000, 7200), np.int8, chunks=(1, 7200))

    found = hdf5.load(hostile_hdf5.small(tmp_path / "a.h5", more))
    assert set(found.weights) == {hostile_hdf5.WEIGHT, hostile_hdf5.BIAS}


@pytest.mark.parametrize("edition", ["fa1999", ["fa2017"], np.float32(3), b"fa2017\xff", ""])
def test_invalid_editions(edition, tmp_path, invoke):
    path = hostile_hdf5.small(tmp_path / "a.h5", edition=edition)
    code, _, err = invoke("run", "--checkpoint", path, "--n", 10)
    assert code == 3 and "edition" in err and len(err.strip().splitlines()) == 1, err


def test_the_confined_process_reads_all_contents(tmp_path):
    rng = np.random.default_rng(4)
    weight = rng.standard_normal((10, 784)).astype(np.float32)
    path = hostile_hdf5.small(tmp_path / "a.h5", weight, edition="fa2017", seed=3, score=0.1 + 0.2, what="é")
    found, own = confined.load(path), hdf5.load(path)
    assert found.symbol == own.symbol and found.attributes == own.attributes and found.attributes["score"] == 0.1 + 0.2
    assert found.weights[hostile_hdf5.WEIGHT].tobytes() == weight.tobytes()
    assert {name: array.shape for name, array in found.weights.items()} == {
        name: array.shape for name, array in own.weights.items()
    }


def test_a_file_that_hdf5_never_finishes_reading(tmp_path, monkeypatch):
    monkeypatch.setattr(confined, "_CPU_SECONDS", 1)
    with pytest.raises(CheckpointError):
        load.load(hostile_hdf5.endless(tmp_path / "a.h5"))


@pytest.mark.parametrize(
    "does, words",
    [
        ("while True: pass", "could not be read in 1 s"),
        ("import os; os.kill(os.getpid(), 11)", "library crashed"),
        ("print('{}')", "library crashed"),
        ("import time; time.sleep(60)", "could not be read in 2 s"),
    ],
)
def test_misbehaviour_of_the_confined_process(does, words, tmp_path, monkeypatch):
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
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "a")],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.stdout.split() == ["24"] and "File too large" in done.stderr, done.stderr


@pytest.mark.parametrize("limit", [1, 5000, 60_000])
def test_an_import_that_cannot_be_written(limit, tmp_path):
    """If the output of `models import` cannot be written completely, the error is one line and no file is left.

    A limit of file sizes acts like a full disk: writing fails in the middle.
    """
    write_pair(tmp_path / "net", network())
    code = (
        f"import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))\n"
        "from fashion_infer.cli.main import main; main(sys.argv[1:])"
    )
    # No bytecode is written, because the limit would truncate it, and later processes could not import the module.
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code, "models", "import", str(tmp_path / "net"), "--to", str(tmp_path / "a.h5")],
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
    )
    whole = len(hdf5.image(network(), {}))
    if limit < whole:
        assert done.returncode == 3 and len(done.stderr.strip().splitlines()) == 1, done.stderr
        assert "cannot write" in done.stderr and "File too large" in done.stderr
        assert sorted(p.name for p in tmp_path.iterdir()) == ["net-0001.params", "net-symbol.json"]
    else:
        assert done.returncode == 0, done.stderr


# ---- Files .params.


@pytest.mark.parametrize("what", PARAMS)
def test_sizes_in_a_params_file_are_checked(what, tmp_path):
    content, words = PARAMS[what]
    path = tmp_path / "a.params"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=words):
        params_file.read(path)


@pytest.mark.parametrize("size, words", [(1 << 40, "does not begin"), (0, "ends too early")])
def test_a_sparse_file_is_not_read_completely(size, words, tmp_path):
    path = tmp_path / "a.params"
    path.touch()
    os.truncate(path, size)
    with pytest.raises(CheckpointError, match=words):
        params_file.read(path)


def test_a_large_array_in_a_sparse_file_is_refused(tmp_path):
    """A complete .params file with one weight of 4 GB of zeros, which is sparse on disk, is refused."""
    shape = (1 << 20, 1 << 10)
    head = struct.pack("<QQQIiiqqiii", 0x112, 0, 1, 0xF993FAC9, 0, 2, *shape, 1, 0, 0)
    names = struct.pack("<QQ", 1, 5) + b"arg:w"
    path = tmp_path / "a.params"
    with open(path, "wb") as file:
        file.write(head)
        file.seek(4 << 30, os.SEEK_CUR)
        file.write(names)
    with pytest.raises(CheckpointError):
        params_file.read(path)
    assert params_file.read(path, lambda name: False) == {}


@pytest.mark.parametrize("which", ["-symbol.json", "-0001.params"])
def test_fifos_do_not_hang(which, tmp_path):
    prefix = write_pair(tmp_path / "net", network())
    os.unlink(prefix + which)
    os.mkfifo(prefix + which)
    with pytest.raises(CheckpointError):
        load.load(prefix)
    with pytest.raises(CheckpointError):
        load.load(prefix + which)


@pytest.mark.parametrize("path", ["x" * 300, "a/" * 3000, "a\0b", "/dev/zero", "loop"])
def test_paths_that_no_file_has(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.symlink("loop", "loop")
    with pytest.raises(CheckpointError) as error:
        load.load(path)
    assert "\n" not in str(error.value)


# ---- Weights.


def test_weights_that_are_rounded_are_named(tmp_path, invoke):
    """A weight that float32 cannot represent is rounded and named in one line. No line is printed for other weights."""
    found = network()
    exact = {name: array.astype(np.float64) for name, array in found.weights.items()}
    write_pair(tmp_path / "exact", found._replace(weights=exact))
    assert load.load(str(tmp_path / "exact")).notice is None
    finer = {**exact, "new0_weight": exact["new0_weight"] + 1e-12}
    write_pair(tmp_path / "finer", found._replace(weights=finer))
    loaded = load.load(str(tmp_path / "finer"))
    assert loaded.notice == "weight new0_weight was rounded to float32, in which the network computes"
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
    """If scores are not finite, `run` fails and prints no correctness.

    The weights are finite, but their products overflow.
    """
    found = network()
    large = {name: np.full_like(array, 3e38) for name, array in found.weights.items()}
    prefix = write_pair(tmp_path / "net", found._replace(weights=large))
    for mode in MODES:
        arguments = ("--checkpoint", prefix, "--n", 10, "--data", "synthetic", "--backend", "cpu", "--mode", mode)
        code, out, err = invoke("run", *arguments)
        assert code == 1 and "the scores of 10 of 10 images are NaN or infinite" in err and "Correctness" not in out
        assert len(err.strip().splitlines()) == 1
    with pytest.raises(CheckFailed):
        pipeline.check_scores(np.array([[0.1, np.inf]]))
