"""Shell completions, requested from the program as shells request them, and in interactive shells."""

import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest
import reference
import skips

import fashion_infer
from fashion_infer.checkpoints import editions, zoo
from fashion_infer.cli import main
from fashion_infer.kernel_files import formats

ROOT = Path(fashion_infer.__file__).parents[1]


def offered(*words):
    """Return (type, value) of each completion of the last word."""
    variables = {"_FASHION_INFER_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(["fashion-infer", *words])}
    done = subprocess.run(
        [sys.executable, "-m", "fashion_infer"],
        env={**os.environ, **variables, "COMP_CWORD": str(len(words)), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return [tuple(line.split(",", 1)) for line in done.stdout.splitlines() if line]


def names(*words):
    return [value for kind, value in offered(*words) if kind == "plain"]


def test_commands_and_options():
    assert names("") == list(main.COMMANDS)
    assert names("bench", "") == ["conv", "net", "saved"]
    assert "--kernel" in names("run", "--k") and names("run", "--backend", "g") == ["gpu"]


def test_names():
    assert names("run", "--model", "") == list(zoo.MODELS)
    short = [model.short_name for model in zoo.MODELS.values() if model.edition == "sp2019"]
    assert names("run", "--edition", "sp2019", "--model", "") == short
    assert names("run", "--edition", "fa1999", "--model", "") == []
    assert names("run", "--edition", "") == [*editions.EDITIONS, *editions.ALIASES]
    assert names("kernel", "new", "--format", "") == [*(entry.name for entry in formats.FORMATS), *formats.ALIASES]
    assert "m2.1" in names("course", "m")


def test_kernels_files_and_folders():
    found = offered("run", "--backend", "cpu", "--kernel", "")
    assert {value for kind, value in found if kind == "plain"} == {"auto", *reference.own_kernels("cpu")}
    assert ("file", "") in found
    assert offered("report", "--out", "re") == [("dir", "re")]
    for words in (["predict"], ["compare"], ["kernel", "check"], ["models", "import"], ["run", "--checkpoint"]):
        assert offered(*words, "a") == [("file", "a")]


def test_saved_benchmarks(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    folder = tmp_path / "fashion-infer" / "benchmarks"
    assert names("bench", "conv", "--against-saved", "") == []
    folder.mkdir(parents=True)
    (folder / "before.json").touch()
    assert names("bench", "conv", "--against-saved", "") == names("bench", "net", "--save", "b") == ["before"]


def test_an_unknown_shell(invoke, monkeypatch):
    monkeypatch.setenv("SHELL", "/bin/tcsh")
    code, out, err = invoke("completion", "show")
    assert code == 2 and not out and "--shell" in err


def typed(shell, keys, wanted, seconds=90):
    """Type keys into an interactive shell; return its output when `wanted` appears or the time is up."""
    child, terminal = pty.fork()
    if not child:
        os.execvp(shell[0], shell)
    shown, sent, end = "", False, time.monotonic() + seconds
    try:
        while wanted not in shown and time.monotonic() < end:
            if select.select([terminal], [], [], 1)[0]:
                shown += os.read(terminal, 4096).decode(errors="replace")
            if not sent and "READY>" in shown:
                sent = True
                shown = ""
                os.write(terminal, keys.encode())
        return shown
    finally:
        os.close(terminal)
        os.kill(child, 9)
        os.waitpid(child, 0)


@pytest.fixture
def home(tmp_path, monkeypatch):
    """The user's home folder for the test. The program is on PATH."""
    program = tmp_path / "bin" / "fashion-infer"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m fashion_infer "$@"\n')
    program.chmod(0o755)
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "ZDOTDIR", "PS1", "BASH_ENV", "ENV"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("TERM", "vt100")
    return tmp_path


ZSHRC = "PROMPT='READY> '\nunsetopt zle_bracketed_paste\nautoload -Uz compinit && compinit -u\n"


@pytest.mark.parametrize(
    "shell, start, before",
    [("bash", ".bashrc", "PS1='READY> '\n"), pytest.param("zsh", ".zshrc", ZSHRC, marks=skips.needs("zsh"))],
)
def test_an_interactive_shell_completes(home, shell, start, before):
    (home / start).write_text(before)
    subprocess.run(f"fashion-infer completion show --shell {shell} >> ~/{start}", shell=True, check=True)
    assert "ece408-high" in typed([shell, "-i"], "fashion-infer run --model ece408-h\t", "ece408-high")
    # --kernel takes a file, too
    assert "broadcast" in typed([shell, "-i"], "fashion-infer run --kernel broadc\t", "broadcast", seconds=20)


@skips.needs("fish")
def test_fish_completes(home):
    (home / ".config/fish/completions").mkdir(parents=True)
    to = "~/.config/fish/completions/fashion-infer.fish"
    subprocess.run(f"fashion-infer completion show --shell fish > {to}", shell=True, check=True)
    line = "complete -C 'fashion-infer run --model ece408-'"
    done = subprocess.run(["fish", "-c", line], capture_output=True, text=True, check=True)
    assert [found.split("\t")[0] for found in done.stdout.splitlines()] == ["ece408-high", "ece408-low"]
