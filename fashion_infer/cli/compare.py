"""The command `fashion-infer compare`."""

import click

from ..errors import CheckFailed, UsageError
from ..present.render import terminal
from . import options
from .bench import fail_above
from .groups import ExampleCommand


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
    click.option(
        "--last",
        is_flag=True,
        help="Compare the two benchmarks saved last or, if A.json is given, A.json with the one saved last.",
    ),
    click.option(
        "--check", is_flag=True, help="Exit 1 if B is slower by more than the noise, or if its correctness differs."
    ),
    fail_above,
    options.as_json,
)
def command(files, last, check, fail_above, as_json):
    """Compare two files written by `run --json` or `bench --json`; show ratios and verdicts.

    Two medians count as the same if they differ by at most the larger spread of the two, or by at most 3% (10% with
    fewer than four repeats), or if a rank test of the repeats finds no difference. The time for which a run's threads
    waited for a processor does not count. --check and --fail-above need at least two repeats, and also fail if
    correctness differs.
    """
    from ..bench import documents, history, verdicts
    from ..present.bench import pages

    wanted = 2 - len(files)
    if wanted < 0 or (wanted > 0) != last:
        raise UsageError(
            "compare takes two files or, with --last, at most one: the last saved benchmark replaces B.json"
        )
    saved = [str(file) for file in history.last(wanted)] if last else []
    first, second = list(files) + saved
    judged = check or fail_above is not None
    compared = verdicts.compare_files(documents.read(first), documents.read(second), judged)
    if as_json:
        terminal.show_json(compared.as_dict())
    else:
        terminal.show(pages.comparison(compared))
    faults = compared.faults(fail_above or 0.0) if judged else []
    if faults:
        raise CheckFailed("; ".join(faults))
