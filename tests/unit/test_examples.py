"""The examples at the end of each command's --help parse, have the documented form, and run in an empty folder."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import profiles
import pytest
from command_line import parsed, walked

from fashion_infer.cli import candidates, main

NAMES = {"auto", "none", "ladder"}


ALL = list(walked())
LINES = sorted({line for _, command in ALL for line, _ in command.examples if not line.startswith("echo ")})
# Commands whose examples run only in `make test-all`, because they take long. A run draws some of the other commands.
LONG = ("", "verify", "report", "bench conv", "bench net", "bench", "profile", "compare", "kernel explain")
RUN = [(words, one) for words, one in ALL if profiles.pick(" ".join(words) not in LONG, True)]
QUICK = ("data", "models", "course", "doctor", "completion", "predict", "run")
_quick = [(words, one) for words, one in RUN if words and words[0] in QUICK]
_others = [(words, one) for words, one in RUN if not words or words[0] not in QUICK]
DRAWN = profiles.drawn(_quick, 3) + [pytest.param(*one, marks=pytest.mark.slow) for one in profiles.drawn(_others, 1)]


@pytest.mark.parametrize("words, command", ALL, ids=[" ".join(words) or "program" for words, _ in ALL])
def test_help_ends_with_examples(invoke, words, command):
    assert 1 <= len(command.examples) <= 4
    code, out, _ = invoke(*words, "--help")
    assert code == 0
    # Examples are complete lines of at most 80 characters, without trailing text.
    shown = out.partition("\nExamples:\n")[2].splitlines()
    lines, needs = zip(*command.examples)
    assert [line for line in shown if line.startswith(f"  {main.PROGRAM} ")] == [
        f"  {main.PROGRAM} {each}" for each in lines
    ]
    assert len(shown) == len(lines) + sum(map(bool, needs))
    assert all(len(line) <= 80 for line in shown)
    assert any(line.split()[: len(words)] == list(words) for line in lines)


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1e999"])
def test_options_for_numbers_refuse_infinity_and_nan(invoke, value):
    found = [
        (words, option.opts[0])
        for words, command in ALL
        for option in command.params
        if isinstance(option.type, click.types.FloatParamType)
    ]
    assert len(found) > 5
    for words, option in found:
        code, out, err = invoke(*words, option, value)
        assert code == 2 and option in err and err.count("\n") == 1 and not out, (words, option)


@pytest.mark.parametrize("line", LINES)
def test_examples_parse(line):
    command, context = parsed(shlex.split(re.split(" >>? | [|] ", line)[0]))
    # Names must be among those that completion offers. Files are not checked here.
    for param in command.params:
        value = context.params[param.name]
        if (
            param.name in candidates.NAMES
            and param.name not in ("save", "against_saved")
            and context.get_parameter_source(param.name).name == "COMMANDLINE"
        ):
            for text in value if isinstance(value, tuple) else [value]:
                for name in text.split(","):
                    offered = candidates.complete(context, param, name)
                    assert name in [item.value for item in offered] or "/" in name, (line, name)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("words, command", DRAWN, ids=lambda one: " ".join(one) if isinstance(one, tuple) else "")
def test_examples_run_in_an_empty_folder(words, command, tmp_path):
    if words[:1] == ("board",):
        pytest.importorskip("sqlalchemy")
    program, folder, home = tmp_path / "bin" / main.PROGRAM, tmp_path / "empty", tmp_path / "home"
    for made in (program.parent, folder, home):
        made.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m fashion_infer "$@"\n')
    program.chmod(0o755)
    path, root = f"{program.parent}:{os.environ['PATH']}", str(Path(__file__).resolve().parents[2])
    environment = {**os.environ, "HOME": str(home), "PYTHONPATH": root, "PATH": path}
    for line, needs in command.examples:
        if not needs:
            pasted = line if line.startswith("echo ") else f"{main.PROGRAM} {line}"
            done = subprocess.run(
                ["bash", "-c", pasted], cwd=folder, env=environment, capture_output=True, text=True, timeout=600
            )
            assert done.returncode == 0, f"{pasted}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
