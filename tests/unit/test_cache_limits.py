"""One size limit applies to the user's cache as a whole: resized images, built kernels and unpacked submissions."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fashion_infer.grading.intake import submission
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


@pytest.mark.parametrize("kind", [cache_limits.KERNELS, cache_limits.GRADED], ids=lambda kind: kind.folder)
def test_entries_are_kept_for_a_day(bare, monkeypatch, kind):
    monkeypatch.setenv(cache_limits.BOUND, "0")
    path = make(kind, 1, 5000, time.time() - 80_000)
    cache_limits.make_room(1, path.with_name("another"))
    assert path.exists()
    os.utime(path, (time.time() - 90_000,) * 2)
    cache_limits.use(path)
    cache_limits.make_room(1, path.with_name("another"))
    assert path.exists()
    os.utime(path, (time.time() - 90_000,) * 2)
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
    cache_limits.make_room(10**9, place / "x.so")
    assert names(place) == ["build-2", "mine.so", "other"]


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
    source.write_text(source.read_text() + "// another\n")
    second = build.build(formats.recognise(source))
    assert first.library.exists() and second.compiled
    os.utime(first.library, (OLD, OLD))
    source.write_text(source.read_text() + "// and another\n")
    third = build.build(formats.recognise(source))
    assert not first.library.exists() and second.library.exists() and third.library.exists()


def test_unpacked_submissions_keep_the_limit(bare, monkeypatch):
    monkeypatch.setenv(cache_limits.BOUND, "0")
    room = cache_limits.made_folder(cache_limits.GRADED)
    older = make(cache_limits.GRADED, 1, 5000, OLD)
    shutil.copy(TEMPLATE, bare / "conv.cpp")
    staged = submission.stage(bare / "conv.cpp", room)
    assert not older.exists() and staged.folder.is_dir()
    os.utime(staged.folder, (OLD, OLD))
    assert submission.stage(bare / "conv.cpp", room).folder == staged.folder
    assert names(room) == [staged.folder.name] and time.time() - staged.folder.stat().st_mtime < 1000


def test_an_impossible_cache_folder_is_a_one_line_error(bare):
    (bare / ".cache").write_text("")
    shutil.copy(TEMPLATE, bare / "conv.cpp")
    run = subprocess.run(
        [sys.executable, "-m", "fashion_infer", "kernel", "check", "conv.cpp"],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert run.returncode == 4 and run.stderr.count("\n") == 1 and "Not a directory: make room" in run.stderr
