"""If the disk becomes full, a command reports it in one line, leaves no incomplete file and blames no kernel."""

import errno
import json
import os
import random
import re
from pathlib import Path

import profiles
import pytest

from fashion_infer.errors import DeviceError
from fashion_infer.kernel_files import build, formats
from fashion_infer.system import cache_limits

ROOT = Path(__file__).resolve().parents[2]
KERNEL = (ROOT / "fashion_infer" / "kernel_files" / "templates" / "conv.cpp").read_text()
# A sitecustomize module for each Python process of a command. Opening for writing, creating and renaming below the
# folder FULL_BELOW are counted as steps; from step FULL_AT on they fail.
SITE = """
import errno, os, sys
below, at, seen = os.environ["FULL_BELOW"], int(os.environ["FULL_AT"]), 0
def fail(event, arguments):
    global seen
    which = {"open": 0, "os.mkdir": 0, "os.rename": 1, "os.link": 1}.get(event)
    if which is None or event == "open" and not arguments[2] & (os.O_WRONLY | os.O_RDWR):
        return
    path = arguments[which]
    if isinstance(path, (str, bytes)) and os.path.abspath(os.fsdecode(path)).startswith(below):
        seen += 1
        if at and seen >= at:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        if not at:
            print("step", file=sys.stderr)
sys.addaudithook(fail)
"""
GRADE = f"grade conv.cpp --unsandboxed --rubric {ROOT}/tests/attacks/rubric.toml"
# Name: (command, exit code, the folder whose disk is full: the cache or the working folder).
COMMANDS = {
    "check": ("kernel check conv.cpp", 4, "cache"),
    "grade": (f"{GRADE} --out results", 4, "cache"),
    "verdict": (f"{GRADE} --out .", 3, "work"),
    "export": ("models export baseline --to model", 3, "work"),
    "bench": ("bench conv --backend cpu --against none --repeat 1 --batch 2 --csv k --markdown k.md", 3, "work"),
}


@pytest.fixture
def run_command(bare, run_program):
    """Run a command beside a kernel file, without writing from a step on (0: never); return folder and process."""
    (bare / "site").mkdir()
    (bare / "site" / "sitecustomize.py").write_text(SITE)

    def call(command, step, name, full):
        here = bare / name
        (here / "work").mkdir(parents=True)
        (here / "work" / "conv.cpp").write_text(KERNEL)
        known = {"PYTHONPATH": f"{bare / 'site'}{os.pathsep}{ROOT}", "XDG_CACHE_HOME": str(here / "cache")}
        environment = {**os.environ, **known, "FULL_BELOW": str(here / full), "FULL_AT": str(step)}
        return here / "work", run_program(*command.split(), timeout=120, cwd=here / "work", env=environment)

    return call


@pytest.mark.parametrize("name", profiles.drawn(list(COMMANDS), 2))
def test_a_command_says_that_the_disk_is_full(name, run_command):
    command, code, full = COMMANDS[name]
    _, done = run_command(command, 0, "all", full)
    steps = done.stderr.splitlines().count("step")
    assert done.returncode == 0 and steps > 3
    for step in random.sample(range(1, steps + 1), min(profiles.pick(2, 99), steps)):
        work, done = run_command(command, step, f"from {step}", full)
        last = done.stderr.splitlines()[-1]
        assert re.search("^fashion-infer: .*cannot write .*No space left on device", last), (step, done.stderr)
        assert done.returncode == code and "Traceback" not in done.stderr
        left = {path.name: path for path in work.iterdir() if path.name != "conv.cpp"}
        if "results" in left:  # "failed" blames the machine, not the submission
            assert json.loads((left.pop("results") / "verdict.json").read_text())["status"] == "failed"
        # A file that was completed remains when the next file does not fit.
        assert set(left) <= {"k"} and all(path.read_text().endswith("\n") for path in left.values())


def test_a_compiler_on_a_full_disk_does_not_blame_the_file(bare, monkeypatch):
    (bare / "conv.cpp").write_text(KERNEL)
    kernel = formats.recognise(bare / "conv.cpp", None, "cpu")

    def fails(command, place):
        return build.Compiled(1, "conv.cpp:1:1: error: no such thing")

    assert build.compile_here(["sh", "-c", "echo $TMPDIR"], bare) == (0, f"{bare}\n")
    with pytest.raises(DeviceError):
        build.build(kernel, compile=fails)

    def full(path, content):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(cache_limits.Unwritable):
        build.build(kernel, compile=fails)
