"""A run on the command line: what is being loaded, and the notices. For `run`, `course` and `profile`."""

import shlex
from contextlib import contextmanager

import click

from ...errors import CheckFailed
from ...present.render import terminal


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
    """Notices of what the user may not expect: other data than Fashion-MNIST, another backend, another correctness."""
    if result.data_source == "synthetic" and request.data != "synthetic":
        terminal.notice(
            "Fashion-MNIST was not found locally and could not be downloaded: running on the built-in "
            "synthetic set instead (`fashion-infer data info` shows where it was looked for)"
        )
    terminal.notice(result.notice)
    terminal.notice(_unexpected(request, result))


def _unexpected(request, result):
    """One line where the correctness is known and is another one; None where it is right, or not known.

    A lower precision may change predictions, and the output says how many.
    """
    if result.expected in (None, result.correctness) or result.precision != "float32":
        return None
    from ...checkpoints import zoo

    if result.submission is not None and not result.submission.wrong:
        why = f"this kernel computes in {result.submission.precision}"
    elif result.submission is not None:
        why = f"this kernel is incorrect (`fashion-infer kernel check {shlex.quote(request.kernel)}` says where)"
    elif request.kernel != "auto":
        edition = zoo.chosen(request.model, request.edition).edition
        where = f"--edition {edition} --backend {result.backend} --kernels {request.kernel} --against none"
        why = f"kernel {request.kernel} is wrong (`fashion-infer bench conv {where}` says where)"
    else:
        why = "this result is wrong (`fashion-infer verify` says of which models and modes)"
    return f"expected {result.expected}: {why}"


def check_submission(request, result):
    """Raise CheckFailed when the run's kernel file is wrong: with the edition that such files are made for, when the
    run had another one."""
    verdict = result.submission
    if verdict is None or not verdict.wrong:
        return
    from ...checkpoints import zoo
    from ...judging import trials

    made_for = trials.years_of(verdict.kernel.format)
    run_with = None if request.checkpoint else zoo.chosen(request.model, request.edition).edition
    other = run_with is not None and len(made_for) == 1 and run_with not in made_for
    raise CheckFailed(verdict.wrong + (f" (such files are made for --edition {made_for[0]})" if other else ""))
