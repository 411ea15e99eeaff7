"""Output of `verify`: the checks of the shipped models."""

from typing import Sequence

from .content import Table, table


def checks(found: Sequence, caption: str = "", verdict_first: bool = False) -> Table:
    """Make the table of `verification.verify`'s checks.

    With `verdict_first`, for a page that may cut off the right part of the table, the verdict follows the model.
    """
    columns = ["model", "weights", "mode", "op", "backend", "data", ">n", ">expected", ">got", "verdict"]
    rows = [
        [c.model, c.weights, c.mode, c.operator, c.backend, c.source, c.n, c.expected, c.got, "ok" if c.ok else "WRONG"]
        for c in found
    ]
    if verdict_first:
        columns, *rows = [[line[0], line[-1], *line[-4:-1], *line[1:-4]] for line in (columns, *rows)]
    return table(caption, columns, rows)


def line(found: Sequence) -> str:
    """Summarise the checks of one run in a line."""
    one = found[0]
    verdicts = ", ".join(f"{'ok' if c.ok else 'WRONG'} on {c.n:,} images ({c.got:g})" for c in found)
    return f"{one.model}, {one.weights} weights, {one.mode} mode, {one.operator}, {one.backend}: {verdicts}"
