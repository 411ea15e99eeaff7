"""A child process decodes pictures as this process does. A failing decoder is a one-line error."""

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, features

from fashion_infer.data import decoding, pictures
from fashion_infer.errors import DataError
from fashion_infer.system import confinement

# Suffixes of formats that Pillow decodes by itself or with C libraries, and of those that some builds of Pillow lack.
SUFFIXES = ["png", "jpg", "gif", "bmp", "tif", "ppm", "tga", "ico", "pcx", "sgi", "xbm", "dds"]
OPTIONAL = {"webp": "webp", "avif": "avif", "jp2": "jpg_2000"}


def draw(path, rng):
    size = tuple(int(side) for side in rng.integers(16, 200, 2))
    levels = rng.integers(0, 256, size[::-1]).astype(np.uint8)
    picture = Image.fromarray(levels)
    picture.convert("1" if path.suffix == ".xbm" else "RGB" if path.suffix in (".dds", ".avif") else "L").save(path)
    return str(path)


def test_the_child_decodes_formats_as_this_process_does(tmp_path):
    rng = np.random.default_rng()
    known = [*SUFFIXES, *(suffix for suffix, name in OPTIONAL.items() if features.check(name))]
    paths = [draw(tmp_path / f"a b\n{number}.{suffix}", rng) for number, suffix in enumerate(known * 2)]
    for invert in (None, True, False):
        found = decoding.read(paths, invert)
        assert found.dtype == np.uint8 and found.shape == (len(paths), 1, 28, 28)
        for path, one in zip(paths, found):
            assert np.array_equal(one, pictures.read(path, invert)), path


def test_a_name_that_is_not_utf8(tmp_path):
    path = draw(tmp_path / os.fsdecode(b"\xff\xfe.png"), np.random.default_rng(1))
    assert np.array_equal(decoding.read([path])[0], pictures.read(path))


def test_the_error_is_that_of_this_process(tmp_path):
    good = draw(tmp_path / "good.png", np.random.default_rng(1))
    bad, none = tmp_path / "bad.png", tmp_path / "none.png"
    bad.write_bytes(Path(good).read_bytes()[:200])
    for paths, wrong in (
        ([good, str(bad), good], bad),
        ([good, str(bad), str(none)], none),
        ([str(tmp_path)], tmp_path),
    ):
        with pytest.raises(DataError) as expected:
            pictures.read(str(wrong))
        with pytest.raises(DataError) as found:
            decoding.read(paths)
        assert str(found.value) == str(expected.value)


CHILD = """
import os, sys, time
del sys.path[0]
from fashion_infer.data import decoding, pictures
before, calls = pictures.levels, []
def levels(picture):
    calls.append(1)
    exec({!r})
    return before(picture)
pictures.levels = levels
decoding.child(*sys.argv[1:])
"""


def act_before_each(monkeypatch, code):
    """Let the child run Python code before it decodes a picture, and give it a second of processor time."""
    monkeypatch.setattr(decoding, "_CHILD", CHILD.format(code))
    monkeypatch.setattr(decoding, "_CPU_SECONDS", 1)


@pytest.mark.parametrize(
    "does",
    [
        "while True: pass",
        "os.kill(os.getpid(), 11)",
        "os.write(1, b'!half')",
        "os.write(1, b'.short')",
        "time.sleep(60)",
        "keep = bytearray(6 << 30)",
    ],
)
def test_misbehaving_decoders(does, tmp_path, monkeypatch):
    act_before_each(monkeypatch, f"if len(calls) == 2:\n  {does}\n  os._exit(0)")
    monkeypatch.setattr(decoding, "_SECONDS", 2.0 if "sleep" in does else 60.0)
    paths = [draw(tmp_path / name, np.random.default_rng(1)) for name in ("first.png", "second.png", "third.png")]
    with pytest.raises(DataError) as error:
        decoding.read(paths)
    assert "second.png" in str(error.value) and "\n" not in str(error.value)


def test_the_time_limit_is_per_picture(tmp_path, monkeypatch):
    act_before_each(monkeypatch, "end = time.process_time() + 0.4\nwhile time.process_time() < end: pass")
    path = draw(tmp_path / "a.png", np.random.default_rng(1))
    assert len(decoding.read([path] * 3)) == 3


def test_too_large_files_are_refused(tmp_path):
    path = draw(tmp_path / "a.png", np.random.default_rng(1))
    os.truncate(path, pictures.MOST_BYTES)  # zeros after the picture are ignored
    assert len(decoding.read([path])) == 1
    os.truncate(path, pictures.MOST_BYTES + 1)
    with pytest.raises(DataError):
        decoding.read([path])


def test_a_child_that_cannot_be_started(tmp_path, monkeypatch):
    monkeypatch.setattr(confinement.sys, "executable", str(tmp_path / "none"))
    path = draw(tmp_path / "a.png", np.random.default_rng(1))
    with pytest.raises(DataError):
        decoding.read([path])
