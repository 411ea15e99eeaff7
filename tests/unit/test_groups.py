"""The program and its groups without a command print help and a suggestion; colours; options common to all commands."""

import click
import pytest

from fashion_infer.cli import main
from fashion_infer.present.content import table
from fashion_infer.present.render import terminal

GROUPS = [(), *((name,) for name in main.COMMANDS if hasattr(main.cli.get_command(None, name), "commands"))]


@pytest.mark.parametrize("words", GROUPS)
def test_a_group_without_a_command_shows_help_and_a_suggestion(invoke, words):
    code, out, err = invoke(*words)
    asked, help, _ = invoke(*words, "--help")
    assert code == 2 and asked == 0 and out == help and out.startswith("Usage: fashion-infer")
    said, _, following = err.partition("try `")
    assert said.startswith("fashion-infer: ") and err.count("\n") == 1
    # The suggested command must exist.
    program, *command = following.rstrip("`\n").split()
    assert program == "fashion-infer" and tuple(command[: len(words)]) == words
    assert invoke(*command[: len(words) + 1], "--help")[0] == 0


@pytest.mark.parametrize("words", GROUPS)
def test_summaries_of_commands_are_complete(invoke, words):
    text = "".join(invoke(*words, "--help")[1].partition("Commands:")[2].split())  # lines may break after hyphens
    assert "..." not in text
    if words:
        for command in main.cli.get_command(None, *words).commands.values():
            sentence = " ".join(command.help.split("\n\n")[0].split()).split(". ")[0].rstrip(".")
            assert sentence.replace(" ", "") in text


def test_colours_of_verdicts(monkeypatch):
    drawn = []
    monkeypatch.setattr(click, "echo", lambda text="", **options: drawn.append(text))
    monkeypatch.setenv("TERM", "xterm-256color")
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    verdicts = table("", ["model", "verdict"], [["ok then", "ok"], ["b", "WRONG"]])
    terminal.show([verdicts])
    monkeypatch.setenv("FORCE_COLOR", "1")
    terminal.show([verdicts])
    monkeypatch.setenv("NO_COLOR", "1")
    terminal.show([verdicts])
    plain, coloured, none = drawn
    assert "\x1b" not in plain and "ok then" in coloured
    assert "\x1b[32mok" in coloured and "\x1b[1;31mWRONG" in coloured
    assert "32m" not in none and "31m" not in none


def test_all_commands_accept_kernel_and_kernels():
    found = {}

    def walk(command, words):
        for name in command.list_commands(None) if hasattr(command, "commands") or command is main.cli else []:
            walk(command.get_command(None, name), (*words, name))
        for param in command.params:
            if {"--kernel", "--kernels"} & set(param.opts):
                found[" ".join(words)] = set(param.opts)

    walk(main.cli, ())
    assert set(found) >= {"run", "verify", "profile", "report", "bench conv"}
    assert all(names == {"--kernel", "--kernels"} for names in found.values()), found
