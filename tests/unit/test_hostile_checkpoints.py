"""Malicious checkpoints cannot crash the program or run code in it."""

import os
import resource
import struct

import hostile_checkpoints
import numpy as np
import pytest
from hostile_checkpoints import EDITIONS, PARAMS, WEIGHTS, network, small_hdf5, write_pair

from fashion_infer.checkpoints import confined, hdf5, load, mxnet_pair
from fashion_infer.errors import CheckpointError

MODES = ("operator", "fused")


@pytest.mark.parametrize("what", WEIGHTS)
def test_malicious_weights_are_refused_before_they_are_read(what, tmp_path):
    path = small_hdf5(tmp_path / "a.h5", WEIGHTS[what])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(CheckpointError) as error:
        hdf5.load(path)
    assert "\n" not in str(error.value)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kB


def test_unused_weights_are_not_read(tmp_path):
    def more(weights):
        weights[hostile_checkpoints.WEIGHT] = np.ones((10, 784), np.float32)
        weights.create_dataset("more", (400_000, 7200), np.int8, chunks=(1, 7200))

    found = hdf5.load(small_hdf5(tmp_path / "a.h5", more))
    assert set(found.weights) == {hostile_checkpoints.WEIGHT, hostile_checkpoints.BIAS}


@pytest.mark.parametrize("what", EDITIONS)
def test_invalid_editions(what, tmp_path, invoke):
    path = small_hdf5(tmp_path / "a.h5", edition=EDITIONS[what])
    code, _, err = invoke("run", "--checkpoint", path, "--n", 10)
    assert code == 3 and len(err.strip().splitlines()) == 1, err


def test_the_confined_process_reads_all_contents(tmp_path):
    rng = np.random.default_rng(4)
    weight = rng.standard_normal((10, 784)).astype(np.float32)
    path = small_hdf5(tmp_path / "a.h5", weight, edition="fa2017", seed=3, score=0.1 + 0.2, what="é")
    found, own = confined.load(path), hdf5.load(path)
    assert found.symbol == own.symbol and found.attributes == own.attributes and found.attributes["score"] == 0.1 + 0.2
    assert found.weights[hostile_checkpoints.WEIGHT].tobytes() == weight.tobytes()
    assert {name: array.shape for name, array in found.weights.items()} == {
        name: array.shape for name, array in own.weights.items()
    }


@pytest.mark.parametrize(
    "does", ["import os; os.kill(os.getpid(), 11)", "print('{}')", "import time; time.sleep(60)", "while True: pass"]
)
def test_misbehaviour_of_the_confined_process(does, tmp_path, monkeypatch):
    code = f"import sys; del sys.path[0]; from fashion_infer.checkpoints import confined; confined._confine(1)\n{does}"
    monkeypatch.setattr(confined, "_CHILD", code)
    monkeypatch.setattr(confined, "_CPU_SECONDS", 1)
    monkeypatch.setattr(confined, "_SECONDS", 2.0 if "sleep" in does else 60.0)
    with pytest.raises(CheckpointError):
        confined.load(str(tmp_path / "a.h5"))


def test_the_confined_process_opens_one_file_and_writes_none(tmp_path, run_python):
    (tmp_path / "a").write_text("x")
    code = (
        "import sys; del sys.path[0]; from fashion_infer.checkpoints import confined; confined._rehearse()\n"
        "confined._confine(5); one = open(sys.argv[1])\n"
        "try: open(sys.argv[1])\n"
        "except OSError as error: print(error.errno)\n"
        "one.close()\n"
        "with open(sys.argv[1], 'w') as file: file.write('y')\n"
    )
    done = run_python(code, tmp_path / "a")
    assert done.stdout.split() == ["24"] and "File too large" in done.stderr, done.stderr


@pytest.mark.parametrize("limit", [1, 5000, 60_000])
def test_an_import_that_cannot_be_written(limit, tmp_path, run_python):
    write_pair(tmp_path / "net", network())
    code = (
        f"import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))\n"
        "from fashion_infer.cli.main import main; main(sys.argv[1:])"
    )
    # No bytecode is written, because the limit would truncate it, and later processes could not import the module.
    words = ("models", "import", tmp_path / "net", "--to", tmp_path / "a.h5")
    done = run_python(code, *words, cwd=tmp_path, PYTHONDONTWRITEBYTECODE="1")
    whole = len(hdf5.image(network(), {}))
    if limit < whole:
        assert done.returncode == 3 and len(done.stderr.strip().splitlines()) == 1, done.stderr
        assert sorted(p.name for p in tmp_path.iterdir()) == ["net-0001.params", "net-symbol.json"]
    else:
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("what", PARAMS)
def test_sizes_in_a_params_file_are_checked(what, tmp_path):
    path = tmp_path / "a.params"
    path.write_bytes(PARAMS[what])
    with pytest.raises(CheckpointError):
        mxnet_pair.read_params(path)


def test_a_large_array_in_a_sparse_file_is_refused(tmp_path):
    shape = (1 << 20, 1 << 10)
    head = struct.pack("<QQQIiiqqiii", 0x112, 0, 1, 0xF993FAC9, 0, 2, *shape, 1, 0, 0)
    names = struct.pack("<QQ", 1, 5) + b"arg:w"
    path = tmp_path / "a.params"
    with open(path, "wb") as file:
        file.write(head)
        file.seek(4 << 30, os.SEEK_CUR)
        file.write(names)
    with pytest.raises(CheckpointError):
        mxnet_pair.read_params(path)
    assert mxnet_pair.read_params(path, lambda name: False) == {}
    path.write_bytes(b"")
    os.truncate(path, 1 << 40)
    with pytest.raises(CheckpointError):
        mxnet_pair.read_params(path)


@pytest.mark.parametrize("which", ["-symbol.json", "-0001.params"])
def test_fifos_do_not_hang(which, tmp_path):
    prefix = write_pair(tmp_path / "net", network())
    os.unlink(prefix + which)
    os.mkfifo(prefix + which)
    with pytest.raises(CheckpointError):
        load.load(prefix)
    with pytest.raises(CheckpointError):
        load.load(prefix + which)


def test_weights_that_are_rounded_are_named(tmp_path, invoke):
    found = network()
    exact = {name: array.astype(np.float64) for name, array in found.weights.items()}
    finer = {**exact, "new0_weight": exact["new0_weight"] + 1e-12}
    larger = {**exact, "new0_weight": exact["new0_weight"] * 1e300}
    for name, weights in (("exact", exact), ("finer", finer), ("larger", larger)):
        write_pair(tmp_path / name, found._replace(weights=weights))
    assert load.load(str(tmp_path / "exact")).notice is None
    loaded = load.load(str(tmp_path / "finer"))
    np.testing.assert_array_equal(loaded.weights["new0_weight"], finer["new0_weight"].astype(np.float32))
    code, _, err = invoke("models", "import", tmp_path / "finer", "--to", tmp_path / "a.h5")
    assert code == 0 and "new0_weight" in err
    for name in ("finer", "exact"):
        options = ("--n", 10, "--data", "synthetic", "--backend", "cpu")
        code, _, err = invoke("run", "--checkpoint", tmp_path / name, *options)
        assert code == 0 and ("new0_weight" in err if name == "finer" else not err)
    with pytest.raises(CheckpointError):
        load.load(str(tmp_path / "larger"))


def test_scores_that_are_no_numbers_fail(tmp_path, invoke):
    """The weights are finite, but their products overflow."""
    found = network()
    large = {name: np.full_like(array, 3e38) for name, array in found.weights.items()}
    prefix = write_pair(tmp_path / "net", found._replace(weights=large))
    for mode in MODES:
        arguments = ("--checkpoint", prefix, "--n", 10, "--data", "synthetic", "--backend", "cpu", "--mode", mode)
        code, out, err = invoke("run", *arguments)
        assert code == 1 and "Correctness" not in out and len(err.strip().splitlines()) == 1
