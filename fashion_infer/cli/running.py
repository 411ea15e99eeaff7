"""A run on the command line: what is being loaded, and the notices. For `run`, `course` and `profile`."""

from contextlib import contextmanager

import click

from ..present.render import terminal


@contextmanager
def announced(what):
    """Say what is loaded, and that it is done; end the line first when it fails: an error has a line of its own."""
    click.echo(f"Loading {what}...", nl=False)
    try:
        yield
    except BaseException:
        click.echo()
        raise
    click.echo(" done")


def notices(request, result):
    """What the user may not expect: other data than Fashion-MNIST, another backend."""
    if result.data_source == "synthetic" and request.data != "synthetic":
        terminal.notice(
            "Fashion-MNIST is neither on this machine nor to be had from the network: running on the built-in "
            "synthetic set instead (`fashion-infer data info` shows where it was looked for)"
        )
    terminal.notice(result.notice)
