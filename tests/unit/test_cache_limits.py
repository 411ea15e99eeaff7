"""One size limit applies to the user's cache as a whole: resized images, built kernels and unpacked submissions."""

import os
import random
import shutil
import time
from pathlib import Path

import mutate
import numpy as np
import pytest

from fashion_infer.data import resize
from fashion_infer.kernel_files import build, formats
from fashion_infer.system import cache_limits, compilers

OLD = time.time() - 10 * 86400
TEMPLATE = Path(build.__file__).parent / "templates" / "conv.cpp"


def make(kind, number, size, used):
    """Create a cache entry of a kind, with `size` bytes and the time of last use `used`; return its path."""
    place = cache_limits.made_folder(kind)
    name = {"resized": f"synthetic-{number}-0123456789abcdef.npy", "kernels": f"{number:032x}.so"}
    path = place / name.get(kind.folder, f"{number:032x}")
    if kind is cache_limits.GRADED:
        path.mkdir()
        (path / "inner").mkdir()
        (path / "inner" / "kernel.cu").write_bytes(bytes(size))
    else:
        path.write_bytes(bytes(size))
    if kind is cache_limits.KERNELS:
        path.with_suffix(".log").write_text("")
    os.utime(path, (used, used))
    return path


def names(folder):
    return sorted(path.name for path in folder.iterdir() if path.suffix != ".lock")


def test_least_recently_used_entries_of_all_kinds_are_deleted_first(bare, monkeypatch):
    monkeypatch.setenv(cache_limits.BOUND, "1")
    order = [cache_limits.KERNELS, cache_limits.RESIZED, cache_limits.GRADED] * 2
    made = [make(kind, number, 200_000, OLD + number) for number, kind in enumerate(order)]
    for evicted in (2, 3, 5):
        cache_limits.make_room(200_000 * (evicted - 1) - 40_000, cache_limits.folder(cache_limits.RESIZED) / "new.npy")
        assert [path.exists() for path in made] == [False] * evicted + [True] * (6 - evicted)
    assert names(cache_limits.folder(cache_limits.KERNELS)) == [] and names(
        cache_limits.folder(cache_limits.GRADED)
    ) == [made[5].name]


def test_kernels_are_kept_for_an_hour(bare, monkeypatch):
    monkeypatch.setenv(cache_limits.BOUND, "0")
    path = make(cache_limits.KERNELS, 1, 5000, time.time() - 3000)
    cache_limits.make_room(1, path.with_name("another"))
    assert path.exists()
    os.utime(path, (time.time() - 4000,) * 2)
    cache_limits.use(path)
    cache_limits.make_room(1, path.with_name("another"))
    assert path.exists()
    os.utime(path, (time.time() - 4000,) * 2)
    cache_limits.make_room(1, path.with_name("another"))
    assert not path.exists()


def test_foreign_files_are_kept_and_old_build_folders_deleted(bare, monkeypatch):
    monkeypatch.setenv(cache_limits.BOUND, "0")
    place = cache_limits.made_folder(cache_limits.KERNELS)
    for name in ("mine.so", "build-1", "build-2", "other"):
        (place / name).mkdir()
        (place / name / "file").write_bytes(bytes(5000))
        os.utime(place / name, (OLD, OLD))
    os.utime(place / "build-2")
    mine = cache_limits.made_folder(cache_limits.RESIZED) / "mine.npy"
    mine.write_bytes(bytes(5000))
    cache_limits.make_room(10**9, place / "x.so")
    assert names(place) == ["build-2", "mine.so", "other"] and mine.exists()


def test_a_locked_entry_is_not_deleted(bare, monkeypatch):
    monkeypatch.setenv(cache_limits.BOUND, "0")
    path = make(cache_limits.KERNELS, 7, 5000, OLD)
    with cache_limits.lock(path):
        cache_limits.make_room(1, path.with_name("another"))
        assert path.exists()
    cache_limits.make_room(1, path.with_name("another"))
    assert names(path.parent) == []


needs_a_compiler = pytest.mark.skipif(compilers.find_cxx() is None, reason="needs a C++ compiler")


@needs_a_compiler
def test_built_kernels_keep_the_limit(bare, monkeypatch):
    monkeypatch.setenv(cache_limits.BOUND, "0")
    older = make(cache_limits.KERNELS, 1, 5000, OLD)
    source = bare / "conv.cpp"
    shutil.copy(TEMPLATE, source)
    first = build.build(formats.recognise(source))
    assert first.compiled and not older.exists()
    assert names(first.library.parent) == sorted([first.library.name, first.library.with_suffix(".log").name])
    os.utime(first.library, (OLD, OLD))
    assert not build.build(formats.recognise(source)).compiled  # marks the entry as used now
    assert time.time() - first.library.stat().st_mtime < 1000


NAME = "synthetic-30-0123456789abcdef.npy"
MADE = np.random.default_rng(5).integers(0, 256, (40, 1, 50, 50)).astype(np.uint8)


def kept(bare):
    folder = bare / ".cache/fashion-infer/resized"
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


@pytest.fixture
def path(bare):
    resize.cache(NAME, MADE)
    return bare / ".cache/fashion-infer/resized" / NAME


def test_cached_images_are_returned(path, capsys):
    assert np.array_equal(resize.cached(NAME, MADE.shape), MADE)
    assert np.array_equal(np.load(path), MADE)
    assert resize.cached(NAME.replace("30", "31"), MADE.shape) is None
    os.utime(path, (OLD, OLD))
    assert (
        resize.cached(NAME, MADE.shape) is not None and path.stat().st_mtime > OLD
    )  # it is the most recently used now
    assert capsys.readouterr().err == ""


def test_a_damaged_file_is_reported_and_replaced(path, capsys):
    chance, whole = random.Random(), path.read_bytes()
    swapped = whole[:4096] + whole[8192:12288] + whole[4096:8192] + whole[12288:]
    damaged = (mutate.damaged(chance, whole) for _ in range(60))
    for content in [b"", b"\0", whole[:128], whole + b"\0", swapped, *(one for one in damaged if one != whole)]:
        path.write_bytes(content)
        assert resize.cached(NAME, MADE.shape) is None
        assert capsys.readouterr().err == f"fashion-infer: {path} is damaged: the images are resized again\n"
        resize.cache(NAME, MADE)
        assert path.read_bytes() == whole


@pytest.mark.parametrize("what", ["folder", "fifo", "no cache", "read-only"])
def test_an_unusable_cache_is_ignored(bare, what, monkeypatch, capsys):
    folder = bare / ".cache/fashion-infer/resized"
    folder.mkdir(parents=True)
    if what == "folder":
        (folder / NAME).mkdir()
    elif what == "fifo":
        os.mkfifo(folder / NAME)
    elif what == "no cache":
        monkeypatch.setattr(cache_limits, "folder", lambda kind: None)
    else:
        folder.rmdir()
        folder.write_text("")  # a file: not even root can create a folder there
    assert resize.cached(NAME, MADE.shape) is None
    resize.cache(NAME, MADE)
    assert resize.cached(NAME, MADE.shape) is None and capsys.readouterr().err == ""


@pytest.mark.parametrize("bound, left", [("0", []), ("1", [NAME])])
def test_a_set_larger_than_the_limit_is_not_kept(bare, monkeypatch, bound, left):
    monkeypatch.setenv(cache_limits.BOUND, bound)
    resize.cache(NAME, MADE)
    resize.cache("synthetic-99-0123456789abcdef.npy", np.zeros((2, 1, 1000, 1000), np.uint8))
    assert kept(bare) == left
