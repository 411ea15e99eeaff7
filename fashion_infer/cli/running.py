"""Messages of `run`, `course` and `profile`: the lines about loading, and notices about the result."""

import shlex
from contextlib import contextmanager

import click

from ..errors import CheckFailed
from ..present.render import terminal


@contextmanager
def announced(what):
    """Print "Loading WHAT... done" around the block. If the block fails, end the line before the error's message."""
    click.echo(f"Loading {what}...", nl=False)
    try:
        yield
    except BaseException:
        click.echo()
        raise
    click.echo(" done")


def notices(request, result):
    """Show notices about what the user may not expect: the synthetic dataset, the backend, another correctness."""
    notice_synthetic(result.data_source, request.data)
    terminal.notice(result.notice)
    terminal.notice(_unexpected(request, result))


def notice_synthetic(source, asked):
    """Show a notice if the synthetic dataset replaces Fashion-MNIST, which was not found."""
    if source == "synthetic" and asked != "synthetic":
        terminal.notice(
            "Fashion-MNIST was not found and could not be downloaded: using the built-in synthetic set; to use a copy, "
            "set FASHION_INFER_DATA to its folder (`fashion-infer data info` shows the folders that were searched)"
        )


def _unexpected(request, result):
    """Return a line if the correctness differs from the known one; None for tf32 and fp16, which may change it."""
    if result.expected in (None, result.correctness) or result.precision != "float32":
        return None
    from ..checkpoints import zoo

    if result.submission is not None and result.submission.right:
        why = f"this kernel computes in {result.submission.precision}"
    elif result.submission is not None:
        why = f"this kernel is incorrect (`fashion-infer kernel check {shlex.quote(request.kernel)}` says where)"
    elif request.kernel != "auto":
        edition = zoo.chosen(request.model, request.edition).edition
        where = f"--edition {edition} --backend {result.backend} --kernels {request.kernel} --against none"
        why = f"kernel {request.kernel} is wrong (`fashion-infer bench conv {where}` says where)"
    else:
        why = "this result is wrong (`fashion-infer verify` says which models and modes are affected)"
    return f"expected {result.expected}: {why}"


def check_submission(request, result):
    """Raise CheckFailed if the run's kernel file is wrong, naming the edition that its format is made for."""
    verdict = result.submission
    if verdict is None or verdict.right:
        return
    from ..checkpoints import zoo

    made_for = verdict.file.format.editions
    run_with = None if request.checkpoint else zoo.chosen(request.model, request.edition).edition
    other = run_with is not None and len(made_for) == 1 and run_with not in made_for
    raise CheckFailed(verdict.sentence + (f" (such files are made for --edition {made_for[0]})" if other else ""))
