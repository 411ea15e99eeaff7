"""Random command lines and damaged files follow the rules of tries.

Each of the two tests runs for 0.7 s, in `make test-all` for 80 s. A failure prints the failing try's seed.
"""

import json
import random
import sys
import time
from pathlib import Path

import click
import mutate
import profiles
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import rules
import things
from runner import Runner
from tables import Try

from fashion_infer.cli import main as entry

SECONDS = profiles.pick(0.7, 80.0)  # seconds for each of the two tests
# Exit codes: success, a failed check, and errors of usage, of files and of the machine.
CODES = (0, 1, 2, 3, 4)
VALUES = (
    ["", " ", "-", "--", "0", "-1", "1", "5", "1e3", "nan", "inf", "2147483648", "9" * 30, "x", "x" * 5000, "é漢"]
    + ["\n", "a\nb", "\x1b[31m", things.ESCAPE, "a\u202eb", "\udce9", "~", "~nosuchuser", ".", "..", "/", "/dev/null"]
    + ["%s%n", "{0}", "$HOME", "*", "a,b", ",", "auto", "cpu", "fused", "operator", "custom", "synthetic", "fa2017"]
    + [f"{{{name}}}" for name in ("missing", "long", "deep", "loop", "folder", "text", "bytes", "latin", "escape")]
    + ["{newline}.h5", "{unsearchable-file}", "{below-file}"]
)
# Arguments that end a command before it starts real work, because they are invalid.
ENDS = {
    "run": ["--n", "0"],
    "verify": ["nosuch"],
    "profile": ["--n", "0"],
    "predict": ["{text}"],
    "report": ["--n", "0"],
    "board serve": ["--port", "0"],
}
ENDS.update({"course": ["nosuch"], "bench": ["--edition", "nosuch"], "doctor": ["x"], "kernel": ["nosuch"]})


@pytest.fixture(scope="module")
def runner():
    runner = Runner()
    yield runner
    runner.close()


def run_random_tries(runner, make):
    """Run tries that `make(random)` creates until the time is up, but at least ten."""
    begun, count = time.monotonic(), 0
    while time.monotonic() - begun < SECONDS or count < 10:
        seed = random.randrange(2**32)
        one = make(random.Random(seed))
        ending = runner.run(one)
        broken = rules.broken(one._replace(exit=ending.code), ending)
        broken += [] if ending.code in CODES else [f"exit code {ending.code}"]
        assert not broken, f"seed {seed}: {one.arguments!r}\n{broken}\nstdout: {ending.out}\nstderr: {ending.err}"
        count += 1


def try_of(*arguments):
    return Try("", 0, arguments, {}, (), False)


def test_command_lines(runner):
    def make(chance):
        name = chance.choice(list(entry.COMMANDS))
        command, words = entry.cli.get_command(None, name), [name]
        while isinstance(command, click.Group):
            words.append(chance.choice(list(command.commands)))
            command = command.commands[words[-1]]
        ends = ENDS.get(" ".join(words), ENDS.get(name, []))
        options = [param.opts[0] for param in command.params if isinstance(param, click.Option)]
        for _ in range(chance.randrange(5)):
            if options and chance.random() < 0.7:
                words.append(chance.choice(options))
            if chance.random() < 0.8:
                words.append(chance.choice(VALUES))
        return try_of(*words, *ends)

    run_random_tries(runner, make)


def test_damaged_measurements(runner, tmp_path):
    whole = json.loads(Path(__file__).parents[2].joinpath("docs", "results-cpu.json").read_text(encoding="utf-8"))

    def make(chance):
        document = json.loads(json.dumps(whole))
        for _ in range(chance.randrange(1, 4)):
            mutate.damage_json(chance, document)
        text = json.dumps(document).encode()
        if chance.random() < 0.3:
            text = mutate.damaged(chance, text)
        (tmp_path / "a.json").write_bytes(text)
        return try_of("compare", *[str(tmp_path / "a.json")] * 2)

    run_random_tries(runner, make)
