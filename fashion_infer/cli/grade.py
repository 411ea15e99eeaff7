"""The command `fashion-infer grade`."""

import contextlib
from pathlib import Path

import click

from ..errors import CheckFailed, DeviceError, UsageError
from ..present.render import terminal
from . import options
from .groups import ExampleCommand


@click.command(
    "grade",
    cls=ExampleCommand,
    examples=(
        "kernel new --format c-cpu > conv.cpp",
        "grade conv.cpp --backend cpu --n 100",
        ("grade --edition fa2020 --out marks team-1.zip team-2.zip", "submissions, and a GPU"),
        "grade --print-rubric",
    ),
)
@click.argument("submissions", nargs=-1, metavar="SUBMISSION...")
@options.takes(
    click.option("--edition", metavar="NAME", help="Course semester [default: the rubric's, else fa2017]."),
    click.option("--rubric", metavar="FILE.toml", help="Rubric [default: the edition's, see --print-rubric]."),
    click.option("--print-rubric", is_flag=True, help="Print the edition's default rubric for editing, and exit."),
    click.option("--n", type=click.IntRange(1, 100_000), help="Images in the timed checks [default: the rubric's]."),
    click.option("--backend", type=click.Choice(["auto", "cpu", "gpu"]), help="Where to run [default: the rubric's]."),
    options.device,
    click.option("--file", metavar="PATH", help="The kernel file in the folder or archive [default: searched for]."),
    options.kernel_format,
    options.as_json,
    click.option(
        "--for",
        "form",
        type=click.Choice(["gradescope", "prairielearn", "junit"]),
        help="Write the results that this platform or program reads, instead of text.",
    ),
    click.option("--out", metavar="DIR", help="Folder for the results; each submission gets a folder in it."),
    click.option(
        "--resume",
        is_flag=True,
        help="Skip each submission that already has a verdict in --out, unless it or the rubric has changed.",
    ),
    click.option("--require", multiple=True, metavar="CHECK", help="Exit 1 if this check fails; may be repeated."),
    click.option(
        "--repeat",
        metavar="VERDICT.json",
        help="Judge the submission of this verdict again, with the verdict's seed and rubric.",
    ),
    click.option("--once", is_flag=True, help="Time in one run of any spread, and show what the compiler says."),
    click.option(
        "--unsandboxed",
        is_flag=True,
        help="Run without a sandbox, for code that you trust; the result is never ranked.",
    ),
)
def command(
    submissions,
    edition,
    rubric,
    print_rubric,
    n,
    backend,
    device,
    file,
    kernel_format,
    as_json,
    form,
    out,
    resume,
    require,
    repeat,
    once,
    unsandboxed,
):
    """Grade kernels that you do not trust: they run in a sandbox, and a separate process times and checks them.

    SUBMISSION is a kernel file, a folder or an archive. The exit code is 0 if all submissions were judged, whatever the
    marks; 1 if a check named by --require failed; 4 if this machine could not judge one.
    """
    from ..grading import grade, results, verdict
    from ..grading import rubric as rubrics

    if print_rubric:
        click.echo(rubrics.default_text(edition or "fa2017"), nl=False)
        return
    again = verdict.read(repeat) if repeat else None
    if again is not None:
        submissions = submissions or (again.source,)
        if len(submissions) > 1:
            raise UsageError("--repeat takes one submission")
    if not submissions:
        raise UsageError("name a submission: a kernel file, a folder or an archive")
    if as_json and (form or len(submissions) > 1):
        raise UsageError("--json prints the verdict on one submission; --out DIR contains every verdict.json")
    form = "json" if as_json else form or "text"
    if len(submissions) > 1 and form != "text" and not out:
        raise UsageError(f"--for {form} gives a document for each submission: name a folder for them, --out DIR")
    submissions = tuple(dict.fromkeys(str(Path(source)) for source in submissions)) if resume else submissions
    if resume and (not out or len(submissions) < 2):
        raise UsageError("--resume needs several submissions, and --out DIR with the results of the earlier run")
    asked = again.rubric if again else rubrics.read(rubric, edition) if rubric else rubrics.default(edition or "fa2017")
    asked = rubrics.changed(asked, backend or (again.backend if again else None), n)
    asked = rubrics.once(asked) if once else asked
    unknown = set(require) - {check.name for check in asked.checks}
    if unknown:
        raise UsageError(f"--require {sorted(unknown)[0]}: the rubric has no check of that name")
    request = grade.GradeRequest(
        tuple(submissions),
        asked,
        kernel_format,
        file,
        device,
        unsandboxed,
        again.seed if again else None,
        again.digest if again else None,
    )
    found, documents, kept = [], {}, []
    with results.Folder.made(out, submissions) if out else contextlib.nullcontext() as folder:
        if resume:
            documents = folder.kept(grade.identities(request), asked)
            sources = tuple(source for source in submissions if source not in documents)
            request = request._replace(sources=sources, others=tuple(documents))
            kept = list(documents.values())
            terminal.notice(f"{len(documents)} of {len(submissions)} were judged before")
        for one in grade.grade(request, terminal.notice) if request.sources else ():
            found.append(one)
            if folder:
                folder.save(one, form)
            if len(submissions) > 1:
                documents[one.source] = verdict.as_dict(one)
            if form in ("text", "json") or not folder:
                click.echo(results.written(one, form), nl=False)
        if len(submissions) > 1:
            ordered = [documents[str(Path(source))] for source in submissions if str(Path(source)) in documents]
            for row in _table(ordered):
                terminal.notice(row)
            if folder:
                terminal.notice(f"marks of all: {folder.summary(ordered)}")
        elif folder and form not in ("text", "json"):
            terminal.notice(f"wrote {folder.file(form)}")
    if again is not None:
        terminal.notice("; ".join(again.differences(found[0])) or "every check has the same result as in the verdict")
    _end(found, kept, require)


def _table(documents):
    width = max(len(one["submission"]["name"]) for one in documents)
    for one in documents:
        time = "" if one["op_time_ms"] is None else f"{one['op_time_ms']:.3f} ms"
        points = f"{one['points']:g} of {one['out_of']:g}"
        yield f"{one['submission']['name']:<{width}}  {one['status']:<8} {points:>12}  {time:>14}"


def _end(found, kept, require):
    """Raise DeviceError if a submission could not be judged, or CheckFailed if a check in `require` failed."""
    from ..grading import verdict

    failed = [one for one in found if one.status == verdict.FAILED]
    if failed:
        raise DeviceError(f"could not judge {', '.join(one.name for one in failed)}: {failed[0].reason}")
    lacking = [
        f"{one['submission']['name']}: {mark['name']}"
        for one in [*map(verdict.as_dict, found), *kept]
        for mark in one["marks"]
        if mark["name"] in require and not mark["passed"]
    ]
    if lacking:
        raise CheckFailed(f"required checks failed: {', '.join(lacking)}")
