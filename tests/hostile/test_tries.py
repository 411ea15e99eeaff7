"""Tries of the tables, which README.md describes, follow the rules."""

import os
import sys
from pathlib import Path

import profiles
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import conditions
import rules
import tables
from runner import Runner
from things import NODES

TRIES = [one for path in sorted(tables.FOLDER.glob("*.txt")) for one in tables.read(path)]
# A fork is much faster than a new process, so each run draws only a few of the tries for new processes.
WARM = profiles.drawn([one for one in TRIES if not one.cold], 120)
COLD = profiles.drawn(WARM, 1) + profiles.drawn([one for one in TRIES if one.cold], 2)


@pytest.fixture(scope="module")
def runner():
    runner = Runner()
    yield runner
    runner.close()


def check(runner, one, cold):
    if any(conditions.needs_root(condition) for condition in one.conditions) and os.getuid():
        pytest.skip("only root can become another user")
    if any(f"{{{name}}}" in word and not (runner.things / name).exists() for name in NODES for word in one.arguments):
        pytest.skip("only root can make device nodes")
    ending = runner.run(one, cold)
    broken = rules.broken(one, ending)
    assert not broken, "\n".join([one.where, *broken, f"stdout: {ending.out[-2000:]}", f"stderr: {ending.err[-4000:]}"])


def label(one):
    """Return a test's name for pytest: the table's name, the conditions, the variables and the arguments."""
    words = [*one.conditions, *(f"{name}={value}" for name, value in one.environment.items()), *one.arguments]
    return f"{one.where} {' '.join(words)}"[:100].encode("ascii", "backslashreplace").decode()


@pytest.mark.parametrize("one", WARM, ids=label)
def test_try(runner, one):
    check(runner, one, False)


@pytest.mark.parametrize("one", COLD, ids=label)
def test_try_in_a_new_process(runner, one):
    check(runner, one, True)
