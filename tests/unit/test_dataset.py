"""Reading, finding and refusing datasets: small files that the tests write, and the real dataset if it is present."""

import gzip
import hashlib
import struct

import numpy as np
import pytest
import reference

from fashion_infer.data import dataset, locate, synthetic
from fashion_infer.data import idx as reading
from fashion_infer.data.resize import resize
from fashion_infer.errors import DataError, UsageError

IMAGES, LABELS = locate.FILES["test"]


def idx(magic, shape, content):
    return struct.pack(f">{1 + len(shape)}I", magic, *shape) + bytes(content)


def accept(monkeypatch, folder):
    """Make the dataset's expected MD5 sums those of the folder's files."""
    for name in (IMAGES, LABELS):
        monkeypatch.setitem(locate.MD5, name, hashlib.md5((folder / name).read_bytes()).hexdigest())


@pytest.fixture
def small_set(tmp_path, monkeypatch):
    folder = tmp_path / "small"
    folder.mkdir()
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (20, 28, 28), np.uint8)
    labels = rng.integers(0, 10, 20, np.uint8)
    (folder / IMAGES).write_bytes(gzip.compress(idx(2051, (20, 28, 28), images.tobytes())))
    (folder / LABELS).write_bytes(gzip.compress(idx(2049, (20,), labels.tobytes())))
    accept(monkeypatch, folder)
    return folder, images, labels


def test_images_and_labels_are_read(small_set):
    folder, images, labels = small_set
    loaded = dataset.load(20, str(folder))
    assert np.array_equal(loaded.images[:, 0], images) and loaded.images.shape == (20, 1, 28, 28)
    assert np.array_equal(loaded.labels, labels) and loaded.labels.dtype == loaded.images.dtype == np.uint8
    assert (loaded.source, loaded.location) == ("fashion-mnist", str(folder))
    assert np.array_equal(dataset.load(3, str(folder)).images[:, 0], images[:3])


def refused(folder, monkeypatch, name, content):
    (folder / name).write_bytes(content)
    accept(monkeypatch, folder)
    with pytest.raises(DataError) as error:
        dataset.load(5, str(folder))
    assert "\n" not in str(error.value)


def test_not_a_whole_gzip_file(small_set, monkeypatch):
    content = (small_set[0] / IMAGES).read_bytes()
    flipped = bytearray(gzip.compress(b"x" * 5000))
    flipped[20] ^= 0xFF
    cut = [content[: len(content) * tenth // 10] for tenth in range(10)]
    for wrong in (*cut, b"<html>not found</html>", bytes(flipped)):
        refused(small_set[0], monkeypatch, IMAGES, wrong)


@pytest.mark.parametrize(
    "name, content",
    [
        (IMAGES, idx(2049, (20, 28, 28), bytes(20 * 784))),
        (IMAGES, idx(2051, (20, 28, 28), bytes(19 * 784))),
        (IMAGES, idx(2051, (20, 28, 28), bytes(21 * 784))),
        (IMAGES, idx(2051, (2**32 - 1, 2**32 - 1, 2**32 - 1), b"")),
        (IMAGES, idx(2051, (20,), b"")),
        (IMAGES, idx(2051, (80, 14, 14), bytes(80 * 196))),
        (IMAGES, idx(2051, (19, 28, 28), bytes(19 * 784))),
        (LABELS, idx(2049, (20,), [10] * 20)),
    ],
)
def test_damaged_files(small_set, monkeypatch, name, content):
    refused(small_set[0], monkeypatch, name, gzip.compress(content))


def test_wrong_md5(small_set):
    folder, *_ = small_set
    content = bytearray((folder / LABELS).read_bytes())
    content[4] ^= 1  # the time stamp of the gzip header, so that the content is unchanged
    (folder / LABELS).write_bytes(content)
    with pytest.raises(DataError):
        dataset.load(5, str(folder))


def test_files_in_the_cache_are_found(small_set, bare):
    folder, images, _ = small_set
    target = bare / ".cache/fashion-infer/fashion-mnist"
    target.mkdir(parents=True)
    for name in (IMAGES, LABELS):
        (target / name).write_bytes((folder / name).read_bytes())
    loaded = dataset.load(4)
    assert loaded.location == str(target) and np.array_equal(loaded.images[:, 0], images[:4])
    (target / LABELS).write_bytes(b"damaged")
    assert locate.find() is None


def test_the_built_in_set_replaces_a_missing_dataset(bare):
    assert locate.find() is None
    loaded = dataset.load(7)
    assert loaded.source == "synthetic" and np.array_equal(loaded.images, synthetic.load()[0][:7])
    with pytest.raises(DataError):
        dataset.load(7, source="fashion-mnist")
    with pytest.raises(DataError):
        dataset.load_split("train")


def test_the_real_set(data_dir):
    images, labels = dataset.load_split("test")
    assert images.shape == (10000, 1, 28, 28) and np.bincount(labels).tolist() == [1000] * 10
    assert images.flags.c_contiguous and abs(images.mean() - 73.1) < 0.1


def test_unpacked_files_are_accepted(tmp_path, monkeypatch):
    images, labels = np.arange(2 * 784, dtype=np.uint8).reshape(2, 28, 28), np.array([3, 9], np.uint8)
    for name, magic, array in ((IMAGES, 2051, images), (LABELS, 2049, labels)):
        content = idx(magic, array.shape, array.tobytes())
        (tmp_path / name[:-3]).write_bytes(content)
        monkeypatch.setitem(locate.UNPACKED, name[:-3], (hashlib.md5(content).hexdigest(), len(content)))
    assert locate.find(tmp_path) == tmp_path
    found = reading.read_pair(tmp_path)
    np.testing.assert_array_equal(found[0][:, 0], images)
    np.testing.assert_array_equal(found[1], labels)
    (tmp_path / LABELS[:-3]).write_bytes(content[:-1] + b"x")
    with pytest.raises(DataError):
        locate.find(tmp_path)


SIZES = (48, 64, 70, 72)


def warped(image, size):
    transform = pytest.importorskip("skimage.transform")
    scale = 28 / size
    shift = 0.5 * scale - 0.5
    matrix = np.array([[scale, 0, shift], [0, scale, shift], [0, 0, 1]])
    map_ = transform.AffineTransform(matrix=matrix)
    out = transform.warp(image / 256.0, map_, output_shape=(size, size), order=1, mode="constant", cval=0)
    return (out * 256).astype(np.uint8)


@pytest.mark.parametrize("size", [*SIZES, 2, 27, 29, 101])
def test_random_images_are_resized(size):
    rng = np.random.default_rng(size)
    images = np.concatenate(
        [
            reference.pixels(rng, (40, 1, 28, 28)),
            np.full((3, 1, 28, 28), 100, np.uint8),
            rng.integers(200, 256, (20, 1, 28, 28), dtype=np.uint8),
        ]
    )
    expected = np.stack([warped(image[0], size) for image in images])[:, None]
    assert np.array_equal(resize(images, size), expected)


@pytest.mark.parametrize("shape, size", [((2, 28, 28), 64), ((2, 1, 28, 20), 64), ((2, 1, 28, 28), 1)])
def test_invalid_shapes_and_sizes(shape, size):
    with pytest.raises(UsageError):
        resize(np.zeros(shape, np.uint8), size)
