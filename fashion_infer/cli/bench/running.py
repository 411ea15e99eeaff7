"""Runs any benchmark from the command line: options for saved measurements, progress, tables, files, exit code."""

import json

import click

from ...errors import CheckFailed, UsageError
from .. import options


class Percentage(click.ParamType):
    """Type of an option whose value is a percentage, with or without a percent sign; converted to a fraction."""

    name = "percentage"

    def convert(self, value, param, ctx):
        """Return the percentage as a fraction; click's UsageError for anything but a number of at least 0."""
        return options.Number(min=0).convert(str(value).rstrip("%"), param, ctx) / 100


fail_above = click.option(
    "--fail-above",
    type=Percentage(),
    metavar="PERCENT",
    help="Exit 1 when a time of ours is slower by more than this, beyond the noise; for CI, as in 5%.",
)
OUTPUTS = (
    *options.OUTPUTS,
    click.option("--save", metavar="NAME", help="Keep the measurements under this name, in your data folder."),
    click.option("--against-saved", metavar="NAME", help="Compare with the measurements saved under this name."),
    fail_above,
)


def run(make, draw, as_json, plot, markdown, save, against_saved, fail_above, reads=()):
    """Run a benchmark, show each completed case and the conclusions, and write the requested files.

    Parameters
    ----------
    make
        Function that makes the `bench.protocol.Benchmark`. It is called after all options have been checked.
    draw
        Function that writes the chart, called as draw(path, result).
    reads
        Files that the command reads and must not overwrite.

    Raises
    ------
    UsageError
        Before the measurement, for a file that cannot be written or a name under which nothing is saved.
    CheckFailed
        When a contender is incorrect, or slower than --fail-above allows.
    """
    from ...bench import documents, history, verdicts
    from ...present import comparison, files
    from ...present.bench import pages
    from ...present.render import terminal
    from ...present.render.progress import ProgressBar

    if fail_above is not None and against_saved is None:
        raise UsageError("--fail-above compares with measurements of before: give --against-saved NAME")
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
        terminal.show(comparison.parts(compared))
        faults = compared.faults(fail_above) if fail_above is not None else []
    terminal.show(pages.closing(result))
    if result.wrong:
        raise CheckFailed(f"wrong: {', '.join(result.wrong)}")
    if faults:
        raise CheckFailed("; ".join(faults))


def refuse(given, why):
    """Raise UsageError with the reason `why` if any of the options `given` has a value."""
    found = [f"--{name}" for name, value in given.items() if value or (value == 0 and value is not False)]
    if found:
        raise UsageError(f"{why} {', '.join(found)}")


def numbers(option, words):
    """Return an option's whole numbers, separated by commas or given by repeating the option; else UsageError."""
    try:
        return tuple(int(word) for part in words for word in part.split(","))
    except ValueError:
        raise UsageError(f"{option} takes whole numbers with commas between them, not {','.join(words)}") from None
