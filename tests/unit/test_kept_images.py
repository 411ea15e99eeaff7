"""Resized images in the user's cache: damaged files are replaced, and files beyond the size limit are deleted."""

import os

import numpy as np
import pytest

from fashion_infer.data import cache, dataset, resize, synthetic
from fashion_infer.errors import UsageError
from fashion_infer.system import cache_limits as cache_bound

NAME = "synthetic-30-0123456789abcdef.npy"
MADE = np.random.default_rng(5).integers(0, 256, (40, 1, 50, 50)).astype(np.uint8)


def kept(bare):
    folder = bare / ".cache/fashion-infer/resized"
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


@pytest.fixture
def path(bare):
    cache.put(NAME, MADE)
    return bare / ".cache/fashion-infer/resized" / NAME


def test_cached_images_are_returned(path, capsys):
    assert np.array_equal(cache.get(NAME, MADE.shape), MADE)
    assert np.array_equal(np.load(path), MADE)
    assert cache.get(NAME.replace("30", "31"), MADE.shape) is None
    assert capsys.readouterr().err == ""


def damage(content, rng):
    """Return the content damaged as by disks and file systems: zeroed, changed, truncated, extended or with swapped
    pages.
    """
    kind = rng.integers(0, 6)
    at = int(rng.integers(0, len(content) - 1))
    if kind == 0:
        content[at : at + 4096] = bytes(len(content[at : at + 4096]))
        content[at] ^= 1
    elif kind == 1:
        content[at] ^= 1 << int(rng.integers(0, 8))
    elif kind == 2:
        del content[at:]
    elif kind == 3:
        content += bytes(int(rng.integers(1, 5000)))
    elif kind == 4:
        content[4096:8192], content[8192:12288] = content[8192:12288], content[4096:8192]
    else:
        content[:] = content[:256] + bytes(len(content) - 256)
    return bytes(content)


def test_a_damaged_file_is_reported_and_replaced(path, capsys):
    rng, whole = np.random.default_rng(), path.read_bytes()
    for content in [b"", b"\0", whole[:128], *(damage(bytearray(whole), rng) for _ in range(60))]:
        path.write_bytes(content)
        assert cache.get(NAME, MADE.shape) is None
        assert capsys.readouterr().err == f"fashion-infer: {path} is damaged: the images are resized again\n"
        cache.put(NAME, MADE)
        assert path.read_bytes() == whole


def test_a_run_replaces_damaged_images(bare, capsys):
    images, labels = synthetic.load()
    whole = dataset.Images(images, labels, "synthetic", "")
    expected = resize.resize(images, 30)
    assert np.array_equal(dataset.resized(whole, 30), expected)
    [name] = kept(bare)
    path = bare / ".cache/fashion-infer/resized" / name
    content = bytearray(path.read_bytes())
    content[1000:500_000] = bytes(499_000)
    path.write_bytes(content)
    assert np.array_equal(dataset.resized(whole, 30), expected) and "resized again" in capsys.readouterr().err
    assert np.array_equal(dataset.resized(whole, 30), expected) and capsys.readouterr().err == ""


@pytest.mark.parametrize("what", ["folder", "fifo", "no cache", "read-only"])
def test_an_unusable_cache_is_ignored(bare, what, monkeypatch, capsys):
    folder = bare / ".cache/fashion-infer/resized"
    folder.mkdir(parents=True)
    if what == "folder":
        (folder / NAME).mkdir()
    elif what == "fifo":
        os.mkfifo(folder / NAME)
    elif what == "no cache":
        monkeypatch.setattr(cache_bound, "folder", lambda kind: None)
    else:
        folder.rmdir()
        folder.write_text("")  # a file: not even root can create a folder there
    assert cache.get(NAME, MADE.shape) is None
    cache.put(NAME, MADE)
    assert cache.get(NAME, MADE.shape) is None and capsys.readouterr().err == ""


def test_the_least_recently_used_are_deleted_first(bare, monkeypatch):
    monkeypatch.setenv(cache_bound.BOUND, "1")
    names = [f"synthetic-{size}-0123456789abcdef.npy" for size in range(30, 40)]
    folder = bare / ".cache/fashion-infer/resized"
    for index, name in enumerate(names):  # 100 kB each
        cache.put(name, MADE)
        os.utime(folder / name, (1000 + index, 1000 + index))
        if len(kept(bare)) < 9:
            assert kept(bare) == names[: index + 1]
    assert len(kept(bare)) == 9 and names[0] not in kept(bare)  # ten files with their headers exceed 1 MB
    assert cache.get(names[1], MADE.shape) is not None  # marks the file as used, so that the next one is the oldest
    cache.put(names[0], MADE)
    assert names[1] in kept(bare) and names[2] not in kept(bare)
    assert sum(entry.size for entry in cache_bound.entries(cache_bound.RESIZED)) <= 10**6


def test_foreign_files_are_not_deleted(bare, monkeypatch):
    folder = bare / ".cache/fashion-infer/resized"
    folder.mkdir(parents=True)
    (folder / "mine.npy").write_bytes(bytes(5 * 10**6))
    (folder / "synthetic-1-0123456789abcdef.npy").symlink_to(folder / "mine.npy")
    monkeypatch.setenv(cache_bound.BOUND, "1")
    cache.put(NAME, MADE)
    assert "mine.npy" in kept(bare) and NAME in kept(bare)


@pytest.mark.parametrize("bound, left", [("0", []), ("1", [NAME])])
def test_a_set_larger_than_the_limit_is_not_kept(bare, monkeypatch, bound, left):
    monkeypatch.setenv(cache_bound.BOUND, bound)
    cache.put(NAME, MADE)
    cache.put("synthetic-99-0123456789abcdef.npy", np.zeros((2, 1, 1000, 1000), np.uint8))
    assert kept(bare) == left


@pytest.mark.parametrize("given", ["two", "-1", "1.5", "1e3"])
def test_an_invalid_limit_is_refused(bare, monkeypatch, given, invoke):
    monkeypatch.setenv(cache_bound.BOUND, given)
    with pytest.raises(UsageError, match=cache_bound.BOUND):
        cache_bound.bound()
    code, _, err = invoke("data", "info")
    assert code == 2 and err.count("\n") == 1


def test_data_info_shows_size_and_limit(path, invoke, monkeypatch):
    monkeypatch.setenv(cache_bound.BOUND, "321")
    code, out, _ = invoke("data", "info")
    flat = "".join(out.split())  # a long path may wrap
    assert code == 0 and f"keptin{path.parents[1]}:0MBofatmost321({cache_bound.BOUND})" in flat
    assert "resizedsetsofimagesresized10builtkernelskernels00" in flat


def test_a_refused_input_size_leaves_no_files(bare, invoke):
    code, _, err = invoke("run", "--data", "synthetic", "--backend", "cpu", "--input-size", "200")
    assert code == 3 and "fullyconnected0_weight" in err and kept(bare) == []
