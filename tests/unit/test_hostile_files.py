"""Files that the program writes and reads: other kinds of files are not replaced, and a file is written completely or
not at all.
"""

import contextlib
import os
import random
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import profiles
import pytest

from fashion_infer.checkpoints import mxnet_pair, zoo
from fashion_infer.errors import DataError, UsageError
from fashion_infer.system import files, inputs


def names(path):
    return sorted(entry.name for entry in path.iterdir())


def put(path, text="new"):
    files.write(path, text)


def test_new_and_regular_files(tmp_path):
    path = tmp_path / "a"
    put(path)
    umask = os.umask(0)
    os.umask(umask)
    assert path.read_text() == "new" and stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask
    path.chmod(0o640)
    put(path, "newer")
    assert path.read_text() == "newer" and stat.S_IMODE(path.stat().st_mode) == 0o640
    if os.geteuid() == 0:
        os.chown(path, 1234, 1235)
        put(path, "newest")
        assert (path.stat().st_uid, path.stat().st_gid) == (1234, 1235)
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("there", [True, False], ids=["to a file", "dangling"])
def test_links_are_followed_and_stay(tmp_path, there):
    (tmp_path / "folder").mkdir()
    target = tmp_path / "folder" / "target"
    if there:
        target.write_text("old")
    (tmp_path / "second").symlink_to("folder/target")
    (tmp_path / "first").symlink_to(tmp_path / "second")
    put(tmp_path / "first")
    assert target.read_text() == "new" and not target.is_symlink()
    assert (tmp_path / "first").is_symlink() and (tmp_path / "second").is_symlink()
    assert names(tmp_path / "folder") == ["target"]


def test_a_fifo_that_nobody_reads_is_no_hang(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_READER_WAIT", 0.2)
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(DataError):
        put(tmp_path / "fifo")


def device(tmp_path, minor):
    """Create a device node with this minor number of Linux's memory devices; skip the test if that is not allowed."""
    path = tmp_path / "node"
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, minor))
        with open(path, "rb"):
            pass
    except OSError:
        pytest.skip("device nodes cannot be made here")
    return path


@pytest.mark.parametrize("minor, error", [(3, contextlib.nullcontext()), (7, pytest.raises(DataError))])  # null, full
def test_device_nodes_are_written_and_stay(tmp_path, minor, error):
    path = device(tmp_path, minor)
    with error:
        put(path)
    assert stat.S_ISCHR(path.stat().st_mode) and names(tmp_path) == ["node"]


def test_what_is_refused(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    with socket.socket(socket.AF_UNIX) as opened:
        opened.bind(str(tmp_path / "socket"))
        before = names(tmp_path)
        for name in ("folder", "socket", "loop", "no/where", "new/", "x" * 300):
            for attempt in (files.check, put):
                with pytest.raises(DataError):
                    attempt(f"{tmp_path}/{name}")
        assert names(tmp_path) == before


def test_a_block_device_is_refused(tmp_path, monkeypatch):
    status = os.stat(tmp_path)
    block = os.stat_result((stat.S_IFBLK | 0o666, *status[1:]))
    monkeypatch.setattr(files.os, "stat", lambda path: block)
    with pytest.raises(DataError):
        files.check(tmp_path / "disk")


@pytest.mark.parametrize("name", ["/dev/stdout", "/proc/self/fd/1", "/dev/fd/1"])
def test_an_open_descriptor_is_written_where_it_stands(tmp_path, name):
    program = (
        f"from fashion_infer.system import files; print('before'); files.write({name!r}, 'text\\n'); print('after')"
    )
    out = tmp_path / "out"
    with open(out, "wb") as stream:
        subprocess.run([sys.executable, "-c", program], stdout=stream, check=True)
    assert out.read_text() == "before\ntext\nafter\n"
    piped = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True)
    assert piped.stdout == b"before\ntext\nafter\n"


def test_an_error_leaves_the_old_file_alone(tmp_path):
    (tmp_path / "a").write_text("old")

    def fails():
        with files.replacing(tmp_path / "a") as new:
            Path(new).write_text("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert (tmp_path / "a").read_text() == "old" and names(tmp_path) == ["a"]


@pytest.mark.parametrize("old", [True, False])
def test_files_that_belong_together_change_together(tmp_path, monkeypatch, old):
    paths = [tmp_path / "a", tmp_path / "b"]
    if old:
        for path in paths:
            path.write_text("old")
    renamed, real = [], os.replace

    def second_fails(source, target):
        renamed.append(target)
        if len(renamed) == 2:
            raise OSError(5, "Input/output error")
        real(source, target)

    monkeypatch.setattr(files.os, "replace", second_fails)

    def write():
        with files.replacing_together(paths, DataError) as new:
            for path in new:
                Path(path).write_text("new")

    with pytest.raises(DataError):
        write()
    assert names(tmp_path) == (["a", "b"] if old else [])
    assert all(path.read_text() == "old" for path in paths if old)


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("there", ["", "a", "a/b/c"])
@pytest.mark.parametrize("left", ["", "a/x"])
def test_created_folders_are_removed_if_they_are_empty(fails, there, left, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / there).mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(ValueError), files.folder_made("a/b/c", 0o700) as folder:
        assert folder == tmp_path / "a/b/c" and list(folder.iterdir()) == []
        assert there == "a/b/c" or stat.S_IMODE(folder.stat().st_mode) == 0o700
        if left:
            (tmp_path / left).touch()
        if fails:
            raise ValueError
    stays = {parent for name in (there, left) for parent in (tmp_path / name / "x").parents} | {tmp_path / left}
    assert set(tmp_path.rglob("*")) == {path for path in stays if tmp_path in path.parents}


def test_a_benchmark_does_not_overwrite_its_kernel(tmp_path, run_program):
    (tmp_path / "a.c").write_text("mine")
    ended = run_program("bench", "conv", "--kernels", "./a.c", "--markdown", "a.c", cwd=tmp_path)
    assert ended.returncode == 2 and ended.stderr.count("\n") == 1
    assert (tmp_path / "a.c").read_text() == "mine"


def test_only_regular_files_are_read(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to(tmp_path / "fifo")
    for name in ("fifo", "link", "."):
        with pytest.raises(UsageError):
            inputs.read(tmp_path / name, 10, UsageError)
    with pytest.raises(DataError):
        inputs.check("/dev/zero")
    (tmp_path / "sparse").touch()
    os.truncate(tmp_path / "sparse", 1 << 40)
    with pytest.raises(DataError):
        inputs.read(tmp_path / "sparse", 1000)
    (tmp_path / "text").write_bytes(b"text")
    assert inputs.read(tmp_path / "text", 4) == b"text" and inputs.check(tmp_path / "text") == 4


def test_a_fifo_waits_for_its_reader_and_stays(tmp_path):
    path, read = tmp_path / "fifo", []
    os.mkfifo(path)

    def late():
        time.sleep(0.3)
        read.append(path.read_text())

    reader = threading.Thread(target=late)
    reader.start()
    put(path, "through" * 20_000)  # more than the buffer of a pipe holds
    reader.join(10)
    assert read == ["through" * 20_000] and stat.S_ISFIFO(path.stat().st_mode)


def test_an_interrupted_import(tmp_path, interruptible):
    """The test exists because h5py drops a KeyboardInterrupt that is raised in its callbacks."""
    mxnet_pair.save(str(tmp_path / "p"), zoo.get("fa2019-ece408").load())
    before = names(tmp_path)
    for _ in range(profiles.pick(1, 10)):
        process = interruptible(
            [sys.executable, "-m", "fashion_infer", "models", "import", f"{tmp_path}/p", "--to", f"{tmp_path}/x.h5"]
        )
        while names(tmp_path) == before:
            assert process.poll() is None
            time.sleep(0.01)
        time.sleep(random.uniform(0, 0.2))
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 130 and err.strip() == "fashion-infer: interrupted"  # after an empty line
        assert names(tmp_path) == before
