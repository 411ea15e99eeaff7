"""`fashion-infer compare`."""

import click

from ...errors import CheckFailed
from ..groups import Command


@click.command(
    "compare", cls=Command, examples=("compare before.json after.json", "compare before.json after.json --check")
)
@click.argument("first", metavar="A.json")
@click.argument("second", metavar="B.json")
@click.option("--check", is_flag=True, help="Exit 1 when B is slower beyond the noise, or its correctness differs.")
def command(first, second, check):
    """Two files of `run --json`, `bench conv --json` or `bench net --json` side by side, with ratios and verdicts.

    Medians are the same when they differ by no more than the spread of either's repeats and 3% (10% of fewer than
    four repeats), or when a rank test of the repeats sees no difference. What a run's threads waited for a processor is
    not held against it. --check wants two repeats or more.
    """
    from ...bench import verdicts
    from ...present import comparison
    from ...present.render import terminal

    compared = verdicts.compare(first, second, check)
    terminal.show(comparison.parts(compared))
    if check and compared.faults:
        raise CheckFailed("; ".join(compared.faults))
