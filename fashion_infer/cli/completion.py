"""`fashion-infer completion`: the script with which a shell completes commands, options and names."""

import os
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from ..errors import UsageError
from .groups import ExampleGroup

SHELLS = ("bash", "zsh", "fish")


@click.group(
    "completion",
    cls=ExampleGroup,
    following="fashion-infer completion show",
    examples=("completion show --shell bash >> ~/.bashrc", "completion show --shell zsh >> ~/.zshrc"),
)
def command():
    """Print the script for shell completion in bash, zsh or fish."""


@command.command(
    "show", examples=("completion show --shell bash >> ~/.bashrc", "completion show --shell zsh >> ~/.zshrc")
)
@click.option("--shell", type=click.Choice(SHELLS), help="Shell for which to print it [default: the one in $SHELL].")
def show(shell):
    """Print the script with which a shell completes commands, options and names. Append it to the shell's start file.

    In .zshrc, it must follow `autoload -Uz compinit && compinit`. For fish, write it to
    ~/.config/fish/completions/fashion-infer.fish.
    """
    from .main import PROGRAM, cli

    found = shell or Path(os.environ.get("SHELL", "")).name
    if found not in SHELLS:
        raise UsageError(f"no completion for the shell in $SHELL ({found or 'not set'}): use --shell bash, zsh or fish")
    completion = get_completion_class(found)
    click.echo(completion(cli, {}, PROGRAM, "_FASHION_INFER_COMPLETE").source())
