"""The benchmark of whole networks on the terminal: a line for each check, a table for each case."""

import click

from ..measure.net_rows import Case, Logits
from ..measure.rows import OK, WRONG
from . import output

COLUMNS = ("min ms", "median ms", "p99 ms", "images/s")


def show_check(check: Logits) -> None:
    """Print what the check of a network's logits found."""
    what = f"{check.edition}, {check.name}"
    if check.status == OK:
        click.echo(
            f"{what}: logits of {check.checked} images within {check.error:.1e} of their range of float64's, "
            f"{check.changed} predictions differ"
        )
    else:
        click.echo(f"{'WRONG: ' if check.status == WRONG else ''}{what}: {check.reason}")


def show_case(case: Case) -> None:
    """Print a case's table; what is wrong says so."""
    click.echo(f"\n{case.title}")
    peers = case.peers
    made = output.table("", *(f">{name}" for name in (*COLUMNS, *(f"x {peer}" for peer in peers), "error", "changed")))
    for row in case.rows:
        name = f"{row.name} {row.layout}".rstrip()
        if row.median_ms is None:
            made.add_row(name, "", "WRONG", "", "", *("" for _ in peers), "", "")
        else:
            made.add_row(name, *figures(row, peers))
    output.show(made)
    for row in case.rows:
        if row.status == WRONG:
            click.echo(f"WRONG: {row.name}: {row.reason}")


def figures(row, peers):
    """A timed row's cells behind its name, as text."""
    return [
        *("" if ms is None else f"{ms:.4g}" for ms in (row.min_ms, row.median_ms, row.p99_ms)),
        f"{row.images_s:,.0f}",
        *(f"{row.faster_than[peer]:.2f}" if peer in row.faster_than else "" for peer in peers),
        "" if row.error is None else f"{row.error:.1e}",
        "" if row.changed is None else str(row.changed),
    ]
