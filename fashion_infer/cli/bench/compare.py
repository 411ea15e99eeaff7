"""`fashion-infer compare`."""

import click

from ...errors import CheckFailed, UsageError
from .. import options
from ..groups import ExampleCommand
from . import running


@click.command(
    "compare",
    cls=ExampleCommand,
    examples=(
        "run --json > before.json",
        "run --json > after.json",
        "compare before.json after.json",
        ("compare --last --fail-above 5%", "two benchmarks that were saved (`bench conv --save NAME`)"),
    ),
)
@options.takes(
    click.argument("files", nargs=-1, metavar="[A.json B.json]"),
    click.option("--last", is_flag=True, help="Compare the two benchmarks saved last; or the last one with A.json."),
    click.option("--check", is_flag=True, help="Exit 1 when B is slower beyond the noise, or its correctness differs."),
    running.fail_above,
)
def command(files, last, check, fail_above):
    """Compare two files of `run --json` or `bench --json`, with ratios and verdicts.

    Medians are the same when they differ by no more than the spread of either's repeats and 3% (10% of fewer than
    four repeats), or when a rank test of the repeats sees no difference. What a run's threads waited for a processor is
    not held against it. --check and --fail-above want two repeats or more; both also fail when correctness differs.
    """
    from ...bench import history, verdicts
    from ...present import comparison
    from ...present.render import terminal

    wanted = 2 - len(files)
    if wanted < 0 or (wanted > 0) != last:
        raise UsageError("compare takes two files; with --last none, or one to compare the last saved benchmark with")
    saved = [str(file) for file in history.last(wanted)] if last else []
    first, second = list(files) + saved
    judged = check or fail_above is not None
    compared = verdicts.compare(first, second, judged)
    terminal.show(comparison.parts(compared))
    faults = compared.faults(fail_above or 0.0) if judged else []
    if faults:
        raise CheckFailed("; ".join(faults))
