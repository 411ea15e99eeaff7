"""What a shell offers, asked of the program as shells ask, and of real shells."""

import os
import pty
import select
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest
import reference

import fashion_infer
from fashion_infer.checkpoints import editions, zoo
from fashion_infer.cli import completing, main
from fashion_infer.kernel_files import formats

ROOT = Path(fashion_infer.__file__).parents[1]
# Texts that nobody can know beforehand.
FREE = {"batch", "batches", "save", "against_saved"}
FREE |= {"url", "of_class", "class_name", "identifier", "host", "ray", "proxies", "grader", "deadline", "database"}


def offered(*words, shell="bash"):
    """(type, value) of what is offered for the last of these words."""
    done = subprocess.run(
        [sys.executable, "-m", "fashion_infer"],
        cwd=str(ROOT),
        env={
            **os.environ,
            "_FASHION_INFER_COMPLETE": f"{shell}_complete",
            "COMP_WORDS": " ".join(["fashion-infer", *words]),
            "COMP_CWORD": str(len(words)),
        },
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
    assert names("bench", "") == ["conv", "net"]
    assert names("com") == ["course", "completion", "compare"][1:]
    assert "--kernel" in names("run", "--k") and names("run", "--backend", "g") == ["gpu"]
    assert names("--h") == ["--help"]


def test_models_and_editions():
    assert names("run", "--model", "") == list(zoo.MODELS)
    assert names("run", "--edition", "fa20") == [
        name for name in [*editions.EDITIONS, *editions.ALIASES] if name.startswith("fa20")
    ]
    assert names("models", "fetch", "ece408") == ["ece408-high", "ece408-low"]
    short = [model.short_name for model in zoo.MODELS.values() if model.edition == "sp2019"]
    assert names("run", "--edition", "sp2019", "--model", "") == short and short


def test_kernels_are_those_of_the_table_and_files():
    found = offered("run", "--kernel", "")
    plain = {value for kind, value in found if kind == "plain"}
    assert ("file", "") in found and plain >= {"auto", *reference.own_kernels("cpu")}
    assert plain - {"auto", *reference.own_kernels("cpu")} <= set(reference.own_kernels("gpu"))
    assert names("run", "--backend", "cpu", "--kernel", "n") == ["naive"]
    # In a list what stands before the last comma stays, and is not offered twice.
    assert names("bench", "conv", "--kernels", "naive,") == [
        f"naive,{name}" for name in names("bench", "conv", "--kernels", "") if name != "naive"
    ]
    assert "ladder" in names("bench", "conv", "--kernels", "la")


def test_formats_programs_peers_and_checks():
    known = [*(entry.name for entry in formats.FORMATS), *formats.ALIASES]
    assert names("kernel", "new", "--format", "") == names("run", "--format", "") == known
    assert names("course", "m") == ["m1.1", "m1.2", "m2.1", "m3.1", "m4.1", "m1", "m2", "m3"]
    assert "torch-compile" in names("bench", "net", "--against", "") and "cudnn" in names(
        "bench", "conv", "--against", ""
    )
    assert "right" in names("grade", "x.cpp", "--require", "")


def test_saved_benchmarks(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    folder = tmp_path / "fashion-infer" / "benchmarks"
    assert names("bench", "conv", "--against-saved", "") == []
    folder.mkdir(parents=True)
    (folder / "before.json").touch()
    assert names("bench", "conv", "--against-saved", "") == names("bench", "net", "--save", "b") == ["before"]


def test_files_and_folders():
    assert offered("report", "--out", "re") == [("dir", "re")]
    for words in (["predict"], ["compare"], ["kernel", "check"], ["models", "import"], ["run", "--checkpoint"]):
        assert offered(*words, "a") == [("file", "a")]


def test_every_text_has_something_to_offer():
    def walk(command):
        for param in command.params:
            if isinstance(param.type, main._Text):
                yield command, param
        for name in command.list_commands(None) if isinstance(command, click.Group) else []:
            yield from walk(command.get_command(None, name))

    for command, param in walk(main.cli):
        context = click.Context(command, info_name=command.name, resilient_parsing=True)
        assert completing.complete(context, param, "") or param.name in FREE, (command.name, param.name)


def test_nothing_is_offered_where_something_is_missing():
    assert names("run", "--edition", "fa1999", "--model", "") == []


@pytest.fixture
def person(tmp_path, monkeypatch):
    """A person's home, with the program on PATH."""
    program = tmp_path / "bin" / "fashion-infer"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m fashion_infer "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    home = tmp_path / "at home"
    home.mkdir()
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "ZDOTDIR", "PS1", "BASH_ENV", "ENV"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("TERM", "vt100")
    return home


class TestInstall:
    @pytest.mark.parametrize("shell, start", [("bash", ".bashrc"), ("zsh", ".zshrc")])
    def test_a_line_in_the_start_file_once_and_gone_again(self, invoke, person, shell, start):
        before = b"alias l=ls  # caf\xe9"  # no line's end, no UTF-8
        (person / "dotfile").write_bytes(before)
        (person / start).symlink_to("dotfile")
        for _ in range(2):
            code, out, err = invoke("completion", "install", "--shell", shell)
            assert code == 0 and Path(out.strip()).is_file() and shell in err
            assert (person / start).read_bytes().startswith(before + b"\n[ -r ")
            assert (person / start).read_bytes().count(b"fashion-infer completion") == 1
        assert (person / start).is_symlink()
        script = Path(out.strip())
        assert script.read_text() == invoke("completion", "show", "--shell", shell)[1]
        assert invoke("completion", "remove", "--shell", shell)[0] == 0
        assert (person / start).read_bytes() == before + b"\n" and not script.exists()
        assert "no completion" in invoke("completion", "remove", "--shell", shell)[2]

    def test_the_shell_that_is_used(self, invoke, person, monkeypatch):
        monkeypatch.setenv("SHELL", "/usr/bin/fish")
        assert (
            invoke("completion", "install")[1].strip().endswith("at home/.config/fish/completions/fashion-infer.fish")
        )
        monkeypatch.setenv("SHELL", "/bin/tcsh")
        code, out, err = invoke("completion", "install")
        assert code == 2 and "tcsh" in err and "--shell bash, zsh or fish" in err and not out
        monkeypatch.delenv("SHELL")
        assert invoke("completion", "show")[0] == 2

    def test_a_home_that_cannot_be_written(self, invoke, person):
        (person / ".local").write_text("a file")
        code, out, err = invoke("completion", "install", "--shell", "bash")
        assert code == 3 and "cannot make the folder" in err and not out and not (person / ".bashrc").exists()

    def test_a_folder_is_kept_with_its_file_alone(self, invoke, person, monkeypatch):
        (person / ".bashrc").symlink_to("missing/.bashrc")
        assert invoke("completion", "install", "--shell", "bash")[0] == 3 and not (person / ".local").exists()
        monkeypatch.setenv("ZDOTDIR", str(person / "made"))
        assert invoke("completion", "install", "--shell", "zsh")[0] == 0 and (person / "made/.zshrc").is_file()


def typed(shell, keys, wanted, seconds=90):
    """What an interactive shell shows until it has shown `wanted` after these keys are typed."""
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


@pytest.mark.parametrize(
    "keys, wanted",
    [
        ("fashion-infer run --model ece408-h\t", "ece408-high"),
        ("fashion-infer comple\t", "completion"),
        ("fashion-infer run --kernel shi\t", "shifted"),
        ("fashion-infer run --edition sp2019 --kernel ./my-k\t", "./my-kernel.cpp"),
    ],
)
@pytest.mark.parametrize("shell, start", [("bash", ".bashrc"), ("zsh", ".zshrc")])
def test_a_real_shell_completes(invoke, person, monkeypatch, shell, start, keys, wanted):
    if not shutil.which(shell):
        pytest.skip(f"needs {shell}")
    monkeypatch.chdir(person)
    Path("my-kernel.cpp").touch()
    prompt = "PS1='READY> '\n" if shell == "bash" else "PROMPT='READY> '\nunsetopt zle_bracketed_paste\n"
    Path(start).write_text(prompt)
    assert invoke("completion", "install", "--shell", shell)[0] == 0
    assert wanted in typed([shell, "-i"], keys, wanted)


@pytest.mark.skipif(not shutil.which("fish"), reason="needs fish")
def test_fish_completes(invoke, person):
    assert invoke("completion", "install", "--shell", "fish")[0] == 0

    def complete(line):
        done = subprocess.run(["fish", "-c", f"complete -C '{line}'"], capture_output=True, text=True, check=True)
        return [found.partition("\t") for found in done.stdout.splitlines()]

    assert [name for name, _, _ in complete("fashion-infer run --model ece408-")] == ["ece408-high", "ece408-low"]
    (found,) = complete("fashion-infer bench conv --kernels naive,shi")
    assert found[0] == "naive,shifted" and "implicit GEMM" in found[2]
    assert ("completion", "\t", main.COMMANDS["completion"][1]) in complete("fashion-infer com")
