"""A run on the command line: what is being loaded, and the notices. For `run`, `course` and `profile`."""

from contextlib import contextmanager

import click

from ..errors import CheckFailed
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


def check_submission(request, result):
    """Raise CheckFailed when the run's kernel file is wrong: with the edition that such files are made for, when the
    run had another one."""
    verdict = result.submission
    if verdict is None or not verdict.wrong:
        return
    from ..checkpoints import zoo
    from ..submissions import checking

    made_for = checking.years_of(verdict.kernel.format)
    run_with = None if request.checkpoint else zoo.chosen(request.model, request.edition).edition
    other = run_with is not None and len(made_for) == 1 and run_with not in made_for
    raise CheckFailed(verdict.wrong + (f" (such files are made for --edition {made_for[0]})" if other else ""))
