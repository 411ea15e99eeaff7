"""`fashion-infer completion`: the script with which a shell completes commands, options and names."""

import os
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from ...errors import UsageError
from ..groups import ExampleGroup

SHELLS = ("bash", "zsh", "fish")


@click.group(
    "completion",
    cls=ExampleGroup,
    following="fashion-infer completion show",
    examples=("completion show --shell bash >> ~/.bashrc", "completion show --shell zsh >> ~/.zshrc"),
)
def command():
    """Shell completion of commands, options and names: bash, zsh, fish."""


@command.command(
    "show",
    examples=(
        "completion show --shell bash >> ~/.bashrc",
        "completion show --shell zsh >> ~/.zshrc",
    ),
)
@click.option("--shell", type=click.Choice(SHELLS), help="[default: the shell named in $SHELL]")
def show(shell):
    """Print the completion script of a shell, for its start file.

    In .zshrc it belongs after `autoload -Uz compinit && compinit`; fish reads
    ~/.config/fish/completions/fashion-infer.fish.
    """
    from ..main import PROGRAM, cli

    found = shell or Path(os.environ.get("SHELL", "")).name
    if found not in SHELLS:
        raise UsageError(f"no completion for the shell in $SHELL ({found or 'not set'}): use --shell bash, zsh or fish")
    completion = get_completion_class(found)
    click.echo(completion(cli, {}, PROGRAM, "_FASHION_INFER_COMPLETE").source())
