"""Checkpoints on disk: HDF5 files and MXNet's pairs are read and written bit for bit; damaged files are refused."""

import fcntl
import random

import h5py
import hostile_checkpoints
import mutate
import numpy as np
import profiles
import pytest

from fashion_infer import _mxnet
from fashion_infer._mxnet import plugin
from fashion_infer.checkpoints import editions, hdf5, load, mxnet_pair
from fashion_infer.errors import CheckpointError, UsageError
from fashion_infer.graph import symbol


@pytest.fixture(scope="module")
def original():
    edition = editions.get("fa2017")
    found = hostile_checkpoints.network(layers=edition.layers, shape=edition.shape)
    largest = found.weights["fullyconnected0_weight"]
    largest[...] = np.resize(largest.ravel()[:997], largest.shape)  # compresses fast
    return found._replace(attributes={"edition": "fa2017", "seed": 3, "correctness": 0.5})


def same_bits(a, b):
    return a.keys() == b.keys() and all(
        a[k].dtype == b[k].dtype == np.float32 and a[k].shape == b[k].shape and a[k].tobytes() == b[k].tobytes()
        for k in a
    )


def test_hdf5_keeps_every_bit(original, tmp_path):
    hdf5.save(tmp_path / "a.h5", original)
    loaded = load.load(str(tmp_path / "a.h5"))
    assert same_bits(loaded.weights, original.weights)
    assert loaded.symbol == original.symbol and loaded.attributes == original.attributes
    assert [p.name for p in tmp_path.iterdir()] == ["a.h5"]


def test_a_locked_hdf5_file_can_be_read(original, tmp_path):
    hdf5.save(tmp_path / "c.h5", original)
    with open(tmp_path / "c.h5", "rb+") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert sorted(hdf5.load(tmp_path / "c.h5").weights) == sorted(original.weights)


def test_quantized_rows(original, tmp_path):
    rng = np.random.default_rng(1)
    values, scale = rng.integers(-127, 128, (500, 7200)).astype(np.int8), rng.random(500).astype(np.float32)
    hdf5.save(tmp_path / "a.h5", original, {"fullyconnected0_weight": (values, scale)})
    loaded = hdf5.load(tmp_path / "a.h5").weights["fullyconnected0_weight"]
    assert loaded.dtype == np.float32 and np.array_equal(loaded, values.astype(np.float32) * scale[:, None])
    assert (tmp_path / "a.h5").stat().st_size < 4 << 20


def test_an_mxnet_pair_is_written_and_read(original, tmp_path):
    prefix = str(tmp_path / "net")
    written = mxnet_pair.save(prefix, original, epoch=12)
    assert [p.name for p in written] == ["net-symbol.json", "net-0012.params"]
    assert same_bits(load.load(prefix, 12).weights, original.weights)
    hdf5.save(tmp_path / "a.h5", mxnet_pair.load(prefix, 12))
    again = hdf5.load(tmp_path / "a.h5")
    assert same_bits(again.weights, original.weights)
    assert symbol.parse(again.symbol, "") == symbol.parse(original.symbol, "")


def test_mxnet_reads_our_files(original, tmp_path):
    mx = _mxnet.load()
    plugin.load_operators()
    mxnet_pair.save(str(tmp_path / "net"), original)
    symbol, arguments, _ = mx.model.load_checkpoint(str(tmp_path / "net"), 1)
    assert same_bits({k: v.asnumpy() for k, v in arguments.items()}, original.weights)
    assert symbol.list_outputs() == ["softmax_output"]


def test_files_written_by_mxnet_are_read(tmp_path):
    mx = _mxnet.load()
    rng = np.random.default_rng(2)
    arrays = {
        f"arg:{dtype}": mx.nd.array(rng.integers(0, 100, (2, 3, 4)), dtype=dtype)
        for dtype in ("float32", "float64", "float16", "uint8", "int32", "int8", "int64")
    }
    mx.nd.save(str(tmp_path / "a.params"), arrays)
    read = mxnet_pair.read_params(tmp_path / "a.params")
    for name, array in arrays.items():
        assert read[name].dtype == array.dtype and np.array_equal(read[name], array.asnumpy())


def old_params(version, name, array):
    """Return a file of an old version of MXNet: 1 has 64-bit sizes, 0 has 32-bit sizes and no magic."""
    import struct

    head = struct.pack("<QQQ", 0x112, 0, 1)
    if version == 1:
        head += struct.pack("<II", 0xF993FAC8, array.ndim) + struct.pack(f"<{array.ndim}q", *array.shape)
    else:
        head += struct.pack("<I", array.ndim) + struct.pack(f"<{array.ndim}I", *array.shape)
    head += struct.pack("<iii", 1, 0, 0) + array.tobytes()
    return head + struct.pack("<QQ", 1, len(name)) + name.encode()


@pytest.mark.parametrize("version", [0, 1])
def test_files_of_old_mxnet_versions(version, tmp_path):
    mx = _mxnet.load()
    array = np.random.default_rng(3).standard_normal((4, 5)).astype(np.float32)
    path = tmp_path / "old.params"
    path.write_bytes(old_params(version, "arg:w", array))
    assert np.array_equal(mxnet_pair.read_params(path)["arg:w"], array)
    assert np.array_equal(mx.nd.load(str(path))["arg:w"].asnumpy(), array)  # `old_params` writes MXNet's format


def refused(path, epoch=1):
    with pytest.raises(CheckpointError) as error:
        load.load(str(path), epoch)
    assert "\n" not in str(error.value) and error.value.exit_code == 3


@pytest.fixture
def pair(original, tmp_path):
    mxnet_pair.save(str(tmp_path / "net"), original)
    return tmp_path / "net"


@pytest.mark.parametrize("name", ["net-symbol.json", "net-0001.params", "a.h5"])
def test_damaged_files_are_read_or_refused(name, original, tmp_path):
    small = original._replace(weights={"w": np.ones((2, 2), np.float32), "v": np.ones(1, np.float32)})
    hdf5.save(tmp_path / "a.h5", small)
    mxnet_pair.save(str(tmp_path / "net"), small)
    content, chance, refusals = (tmp_path / name).read_bytes(), random.Random(), 0
    count = profiles.pick(3, 300) if name == "a.h5" else 300  # a child process reads an HDF5 file
    for _ in range(count):
        (tmp_path / name).write_bytes(mutate.damaged(chance, content))
        try:
            load.load(str(tmp_path / name.partition("-")[0]))
        except CheckpointError as error:
            refusals += 1
            assert "\n" not in str(error) and error.exit_code == 3
    assert name == "a.h5" or refusals > 30


def test_missing_epochs_and_files(pair, tmp_path):
    refused(pair, 2)
    refused(tmp_path / "nowhere")
    refused(tmp_path / "nowhere.h5")
    with pytest.raises(UsageError):
        load.load(str(pair), -1)


def test_params_with_other_names(pair):
    mx = _mxnet.load()
    mx.nd.save(str(pair) + "-0001.params", {"weight": mx.nd.ones(3)})
    refused(pair)


def test_nan_weights(original, tmp_path):
    weights = dict(original.weights, new0_weight=np.full((50, 1, 5, 5), np.nan, np.float32))
    broken = original._replace(weights=weights)
    hdf5.save(tmp_path / "a.h5", broken)
    mxnet_pair.save(str(tmp_path / "net"), broken)
    for path in ("a.h5", "net"):
        refused(tmp_path / path)


def test_broken_hdf5(original, tmp_path):
    path = tmp_path / "a.h5"
    path.write_bytes(b"PK\x03\x04 not HDF5")
    refused(path)
    hdf5.save(path, original)
    content = path.read_bytes()
    for tenth in profiles.drawn(range(10), 2):  # a child process reads each
        path.write_bytes(content[: len(content) * tenth // 10])
        refused(path)
    with h5py.File(path, "w") as file:
        file["x"] = 1
    refused(path)
    with h5py.File(path, "w") as file:
        file.attrs["format"] = hdf5.FORMAT
    refused(path)
