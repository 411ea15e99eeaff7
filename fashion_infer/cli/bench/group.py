"""The command `fashion-infer bench`."""

import click

from ..groups import ExampleGroup
from . import conv, net


@click.group(
    "bench",
    cls=ExampleGroup,
    following="fashion-infer bench conv --batch 100",
    examples=("bench conv --backend cpu --batch 100", "bench net --against none --batch 1,100"),
)
def command():
    """Time our kernels and networks next to other libraries."""


command.add_command(conv.command)
command.add_command(net.command)
