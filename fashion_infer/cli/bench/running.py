"""Runs `bench conv` and `bench net`: shows progress and tables, writes and compares files, and sets the exit code."""

import json

import click

from ...errors import CheckFailed, UsageError
from .. import options


class Percentage(click.ParamType):
    """Type of a percentage, with or without a percent sign, which is converted to a fraction."""

    name = "percentage"

    def convert(self, value, param, ctx):
        return options.Number(min=0).convert(str(value).rstrip("%"), param, ctx) / 100


fail_above = click.option(
    "--fail-above",
    type=Percentage(),
    metavar="PERCENT",
    help="Exit 1 if one of our times is longer by more than this percentage (such as 5%) and by more than the "
    "noise, or if correctness differs.",
)
OUTPUTS = (
    *options.OUTPUTS,
    click.option("--save", metavar="NAME", help="Save the measurements under this name, in your data folder."),
    click.option("--against-saved", metavar="NAME", help="Compare with the measurements saved under this name."),
    fail_above,
)


def run(make, draw, as_json, plot, markdown, save, against_saved, fail_above, reads=()):
    """Run a benchmark, show each completed case and the conclusions, and write the requested files.

    `make` makes the `bench.protocol.Benchmark` once all options have been checked; `draw(path, result)` writes the
    chart; `reads` are files that must not be overwritten. Raise CheckFailed for an incorrect or too slow kernel or
    network.
    """
    from ...bench import documents, history, verdicts
    from ...present import files
    from ...present.bench import pages
    from ...present.render import terminal
    from ...present.render.progress import ProgressBar

    if fail_above is not None and against_saved is None:
        raise UsageError("--fail-above compares with earlier measurements: give --against-saved NAME, too")
    files.check(as_json, markdown, pictures=[plot], inputs=reads)
    before = documents.read(str(history.find(against_saved))) if against_saved else None
    saved = history.new(save) if save else None
    benchmark = make()
    if before and before.kind != f"bench {benchmark.name}":
        raise UsageError(f"'{against_saved}' was saved by `{before.kind}`, and this is `bench {benchmark.name}`")
    with ProgressBar(f"bench {benchmark.name}") as bar:

        def shown(done):
            with bar.hidden():
                terminal.show(pages.done(done))

        result = benchmark.measure(shown, bar.tick)
    terminal.notice(pages.notice(result))
    files.save_benchmark(result, draw, pages.page, as_json, plot, markdown)
    if saved:
        files.write_json(str(saved), result.as_dict())
    faults = []
    if before:
        now = documents.parse("this run", json.loads(json.dumps(result.as_dict())))
        compared = verdicts.compare_files(before, now, check=fail_above is not None)
        terminal.show(pages.comparison(compared))
        faults = compared.faults(fail_above) if fail_above is not None else []
    terminal.show(pages.closing(result))
    if result.wrong:
        raise CheckFailed(f"wrong: {', '.join(result.wrong)}")
    if faults:
        raise CheckFailed("; ".join(faults))


def numbers(option, words):
    """Return the whole numbers of an option that may be repeated and takes a list with commas; UsageError otherwise."""
    try:
        return tuple(int(word) for part in words for word in part.split(","))
    except ValueError:
        raise UsageError(f"{option} takes whole numbers with commas between them, not {','.join(words)}") from None
