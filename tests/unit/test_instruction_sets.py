"""Runs tests that hold for every instruction set again with lower ones than this machine's best."""

import os
import subprocess
import sys
from pathlib import Path

import profiles
import pytest

ROOT = Path(__file__).resolve().parents[2]
SETS = ("generic", "avx2")
HOUR = 3600  # time limit in seconds; `generic` is slow
RUNS = [(isa, name) for isa in SETS for name in ("test_bound.py", "test_steady.py")]


@pytest.mark.timeout(HOUR)
@pytest.mark.parametrize("isa, name", profiles.drawn(RUNS, 1))
def test_bound_and_steadiness(isa, name):
    run(isa, name)


@pytest.mark.parametrize("isa", profiles.drawn(SETS, 1))
def test_no_access_beyond_a_tensor(isa):
    run(isa, "test_guarded.py")


def run(isa, name):
    """Run a test file in a separate process, because the library chooses its instruction set only once."""
    options = {"FASHION_OPS_ISA": isa, "HYPOTHESIS_PROFILE": profiles.pick("default", "all")}
    command = f"-m pytest -q -x -p no:cacheprovider -o timeout={HOUR}".split()
    done = subprocess.run(
        [sys.executable, *command, str(Path(__file__).with_name(name))],
        env={**os.environ, **options},
        cwd=str(ROOT),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
