"""The examples at the end of every --help: they parse, and what they name exists."""

import re
import shlex

import click
import pytest

from fashion_infer.cli import candidates, main

NAMES = {"auto", "none", "ladder"}


def walked(command=main.cli, words=()):
    yield words, command
    if isinstance(command, click.Group):
        for name in command.list_commands(None):
            yield from walked(command.get_command(None, name), (*words, name))


ALL = list(walked())
LINES = [(words, line) for words, command in ALL for line in command.examples]


@pytest.mark.parametrize("words, command", ALL, ids=[" ".join(words) or "program" for words, _ in ALL])
def test_every_help_ends_with_examples(invoke, words, command):
    assert 2 <= len(command.examples) <= 4
    code, out, _ = invoke(*words, "--help")
    assert code == 0
    # Whole lines, of at most 80 characters, and nothing behind them.
    shown = out.partition("\nExamples:\n")[2].splitlines()
    assert shown == [f"  {main.PROGRAM} {line}" for line in command.examples]
    assert all(len(line) <= 80 for line in shown)
    assert len(set(command.examples)) == len(command.examples)


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1e999"])
def test_no_option_takes_what_is_no_finite_number(invoke, value):
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


def parsed(line):
    """The command of an example, and the context of its arguments; what a shell does with them is left out."""
    words = shlex.split(re.split(" >>? | [|] ", line)[0])
    command, context = main.cli, click.Context(main.cli, info_name=main.PROGRAM)
    while isinstance(command, click.Group):
        name = words.pop(0)
        command = command.get_command(context, name)
        assert command is not None, line
        context = click.Context(command, parent=context, info_name=name)
    return command, command.make_context(command.name, words)


@pytest.mark.parametrize("words, line", LINES, ids=[line for _, line in LINES])
def test_examples_are_of_their_command_and_parse(words, line):
    command, context = parsed(line)
    assert line.split()[: len(words)] == list(words) or not words
    # Names are among those that the shell would offer; files are not.
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


def test_a_wrong_example_is_seen():
    with pytest.raises(click.NoSuchOption):
        parsed("run --speed 3")
    with pytest.raises(AssertionError):
        parsed("race")
    with pytest.raises(AssertionError):
        test_examples_are_of_their_command_and_parse((), "run --model ece408-middle")
