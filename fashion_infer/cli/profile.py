"""The command `fashion-infer profile`."""

import contextlib

import click

from ..present.render import terminal
from . import options
from .groups import ExampleCommand


@click.command(
    "profile",
    cls=ExampleCommand,
    examples=(
        "profile",
        "profile --mode operator --kernel naive --n 1000",
        ("profile --backend gpu --trace timeline.json", "a GPU"),
    ),
)
@options.takes_request(
    *options.RUN,
    options.as_json,
    options.as_csv,
    click.option("--trace", "timeline", metavar="FILE.json", help="Write a timeline, for ui.perfetto.dev."),
    click.option(
        "--turns",
        type=int,
        default=3,
        show_default=True,
        help="Number of extra passes without the profiler, whose times give the rates.",
    ),
    click.option(
        "--ceilings/--no-ceilings",
        default=True,
        help="Measure the device's highest arithmetic rate and memory bandwidth [default: --ceilings].",
    ),
)
def command(request, as_csv, as_json, timeline, turns, ceilings):
    """Show where the time of a run goes, by kernel and by call."""
    from .. import profiled_run
    from ..present import files, run
    from ..present import profile as present
    from . import running

    files.check(as_csv, timeline)
    announce = contextlib.nullcontext if as_json else running.announced
    measured = profiled_run.profile(request, turns, ceilings, announce)
    running.notices(request, measured.result)
    figures = measured.figures
    if as_json:
        terminal.show_json(measured.as_dict())
    else:
        terminal.show(run.parts(measured.result))
        terminal.show(present.parts(figures, figures.ceilings, backend=measured.result.backend))
        terminal.show(present.ceilings(figures.ceilings, figures.no_ceilings, measured.result.backend))
    profiled_run.save(measured, as_csv, timeline)
    running.check_submission(request, measured.result)
