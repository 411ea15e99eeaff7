"""The command `fashion-infer profile`."""

import contextlib

import click

from ..errors import UsageError
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
    click.option(
        "--trace", "timeline", metavar="FILE.json", help="Write a timeline that you can open in ui.perfetto.dev."
    ),
    click.option("--counters", is_flag=True, help="Also collect each kernel's hardware counters, with Nsight Compute."),
    click.option(
        "--turns",
        type=int,
        default=3,
        show_default=True,
        help="Number of extra passes with the profiler, and as many without it, to measure its overhead.",
    ),
    click.option(
        "--ceilings/--no-ceilings",
        default=True,
        help="Measure the device's highest arithmetic rate and memory bandwidth [default: --ceilings].",
    ),
)
def command(request, as_csv, as_json, timeline, counters, turns, ceilings):
    """Show where the time of a run goes, by kernel and by call."""
    from .. import profiled_run
    from ..present import files, run
    from ..present import profile as present
    from ..present.render import terminal
    from ..profiling import counters as hardware
    from . import running

    if request.device == "all":
        raise UsageError("profile takes one GPU: name it by its index")
    files.check(as_csv, timeline)
    if counters:
        _check_counters(request)
    announce = contextlib.nullcontext if as_json else running.announced
    measured = profiled_run.profile(request, turns, ceilings, counters, announce)
    running.notices(request, measured.result)
    figures = measured.figures
    counted = hardware.count(["run", *_arguments(request)]) if counters else []
    if as_json:
        terminal.show_json({**measured.as_dict(), "counters": [one.as_dict() for one in counted]})
    else:
        terminal.show(run.parts(measured.result))
        terminal.show(present.parts(figures, figures.ceilings, backend=measured.result.backend))
        terminal.show(present.ceilings(figures.ceilings, figures.no_ceilings, measured.result.backend))
        terminal.show(present.costs(figures.overhead))
        terminal.show(present.hardware_counters(counted) if counters else [])
    profiled_run.save(measured, as_csv, timeline)
    running.check_submission(request, measured.result)


def _check_counters(request):
    """Raise an error for a run on the CPU, or if the profiler is missing. The check does not start CUDA."""
    from ..library import kernels
    from ..system import programs

    cpu = UsageError("--counters works only on a GPU, and this would run on the CPU")
    if request.backend == "cpu":
        raise cpu
    programs.find_tool("ncu")
    if not kernels.table("gpu"):
        raise cpu


def _arguments(request):
    """Return the command-line options with which `run` makes the same request."""
    from .run import command as run

    given = [(p.opts[0], getattr(request, p.name), p.is_flag) for p in run.params if hasattr(request, p.name)]
    words = ([name] if is_flag else [name, str(value)] for name, value, is_flag in given if value not in (None, False))
    return [word for part in words for word in part]
