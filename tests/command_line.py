"""The program's commands, and command lines as the program parses them."""

import click

from fashion_infer.cli import main


def walked(command=main.cli, words=()):
    """Yield (words, command) for a command and for each command below it."""
    yield words, command
    if isinstance(command, click.Group):
        for name in command.list_commands(None):
            yield from walked(command.get_command(None, name), (*words, name))


def parsed(words):
    """Parse the words after `fashion-infer`; return the command, and the context with its options."""
    command, context, words = main.cli, click.Context(main.cli, info_name=main.PROGRAM), list(words)
    while isinstance(command, click.Group):
        name = words.pop(0)
        command = command.get_command(context, name)
        assert command is not None, name
        context = click.Context(command, parent=context, info_name=name)
    return command, command.make_context(command.name, words)
